//! A user follows a request, a run and an agent from their pages and is notified of the end, in Chromium (S0-T4,
//! S0-R3).

use holdpoint_testkit::until;
use serde_json::json;

use crate::browser::{Browsers, DESK, PHONE};
use crate::world::{PATIENCE, World};

const SAID: &str = "return document.getElementById('unread').textContent";

#[tokio::test]
async fn a_follower_is_notified_of_the_end() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_test_clock().await;
    world.agent("outreach", json!([{ "wait": "5 days" }])).await;
    let run = world.start_run("outreach", json!({})).await;
    let browser = browsers.signed_in(&world, &world.up.token, DESK).await;
    browser.go(&format!("/runs/{run}")).await;
    browser.reads("No followers yet.").await;
    browser.click("Follow this run").await;
    browser.reads("Unfollow this run").await;
    browser.reads("You are the only follower.").await;
    browser.click("Follow agent outreach").await;
    browser.reads("Unfollow agent outreach").await;
    browser.picture("following-a-run").await;

    // After the end of the run only its agent can be followed, and the badge shows the notification.
    world.advance("5d").await;
    browser.reads("Completed").await;
    let left = "return document.querySelectorAll('#following form').length";
    until(PATIENCE, "only the agent is left", async || {
        let left = browser.asks(left).await == 1;
        let said = browser.asks(SAID).await;
        (left && said == "1 unread").then_some(())
    })
    .await
    .unwrap();
    browser.click("Notifications").await;
    browser.reads("Run of outreach completed").await;
    browser.reads("It took 5 days.").await;
    browser.picture("following-notified").await;
    browser.click("Run of outreach completed").await;
    browser.reads(&run).await;

    // The list of an agent's runs has the button too.
    browser.go("/runs?agent=outreach").await;
    browser.click("Unfollow agent outreach").await;
    browser.reads("No followers yet.").await;
    browser.picture("following-an-agent").await;
    browser.close().await;
}

/// A request is followed without the script, on a phone.
#[tokio::test]
async fn following_works_on_a_phone_without_the_script() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_test_clock().await;
    let ask =
        json!({ "to": "@user.owner", "question": "Tell the customer?", "options": ["yes", "no"] });
    world.agent("teller", json!([{ "ask": ask }])).await;
    let run = world.start_run("teller", json!({})).await;
    let request = until(PATIENCE, "it asks", async || {
        let id = world.run(&run).await["waiting_on"][0]["id"]
            .as_str()?
            .to_owned();
        let (status, _) = world.up.get(&format!("/requests/{id}")).await.unwrap();
        (status == 200).then_some(id)
    });
    let request = request.await.unwrap();
    let plain = browsers.open(&world, PHONE, false).await;
    plain.sign_in(&world.up.token).await;
    plain.go(&format!("/requests/{request}")).await;
    plain.reads("No followers yet.").await;
    plain.click("Follow this request").await;
    plain.reads("You are the only follower.").await;
    let address = plain.client.current_url().await.unwrap();
    assert!(address.path().ends_with(&request), "{address}");
    plain.picture("following-a-request-phone").await;
    plain.click("Unfollow this request").await;
    plain.reads("No followers yet.").await;
    plain.close().await;
}
