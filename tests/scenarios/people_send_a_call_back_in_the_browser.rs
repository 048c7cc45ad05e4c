//! A person sends the draft of a refund back and approves the next one with edited arguments, in Chromium (S2-R4).

use holdpoint_testkit::until;
use serde_json::{Value, json};

use crate::browser::{Browser, Browsers, DESK};
use crate::shop::Shop;
use crate::world::{PATIENCE, World};

const EXAMPLE: &str = include_str!("../../examples/refund.yaml");

/// Registers the tools of the example and starts its run.
async fn start_refund(world: &World, shop: &Shop) -> String {
    for (name, risk, path) in [
        ("orders.find", "low", "/orders"),
        ("refunds.draft", "low", "/draft-amounts"),
        ("payments.refund", "high", "/refunds"),
    ] {
        let tool = json!({ "name": name, "risk": risk, "idempotent": true,
            "http": { "method": "POST", "url": shop.url(path) } });
        let (status, put) = world.up.post("/tools", &tool).await.unwrap();
        assert_eq!(status, 201, "{put}");
    }
    let (status, agent) = world.up.post_yaml("/agents", EXAMPLE).await.unwrap();
    assert_eq!(status, 201, "{agent}");
    let input = json!({ "input": { "order": "o-17", "amount": 250 } });
    world.start_run("refund", input).await
}

async fn send_back(browser: &Browser, instructions: &str) {
    browser.click("Send back…").await;
    browser.fill("instructions", instructions).await;
    browser.picture("send-back").await;
    let button = browser.find("textarea[name=instructions] ~ button").await;
    button.click().await.unwrap();
}

/// Gate, *Show*: the draft is revised once, and the new draft is approved with edited arguments.
#[tokio::test]
async fn a_draft_is_sent_back_and_the_next_one_is_edited() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_real_time().await;
    let shop = Shop::open().await;
    let run = start_refund(&world, &shop).await;
    let browser = browsers.signed_in(&world, &world.up.token, DESK).await;
    let path = format!("/runs/{run}");
    browser.go(&path).await;
    browser.reads("Call payments.refund").await;
    browser.reads("250").await;
    send_back(&browser, "Deduct the price of the cable.").await;
    until(PATIENCE, "the new draft is asked", async || {
        let view = world.run(&run).await;
        let call = &view["steps"][2];
        (view["status"] == "awaiting_approval" && call["request"]["amount"] == 200).then_some(())
    })
    .await
    .unwrap();
    browser.go(&path).await;
    browser.reads("200").await;
    browser.reads("Deduct the price of the cable").await;
    browser.picture("sent-back").await;
    browser.click("Edit the arguments").await;
    let args = browser.find("textarea[name=args]").await;
    args.clear().await.unwrap();
    let edited = json!({ "order": "o-17", "amount": 125 });
    args.send_keys(&edited.to_string()).await.unwrap();
    let approve = browser.find(".card button.primary").await;
    approve.click().await.unwrap();

    let ended = world.until_status(&run, "completed").await;
    let pay = &ended["steps"][2];
    assert_eq!(pay["request"], edited, "{ended}");
    assert_eq!(pay["approval_state"]["state"], "approved", "{ended}");
    let kinds = world.history(&run).await;
    let revisions = kinds.iter().filter(|kind| *kind == "step.revised");
    assert_eq!(revisions.count(), 1, "{kinds:?}");
    let key = format!("{run}/pay");
    let calls = shop.calls();
    let paid: Vec<Value> = calls
        .iter()
        .filter(|call| call.header("idempotency-key") == key)
        .map(|call| serde_json::from_str(&call.body).unwrap())
        .collect();
    assert_eq!(paid, [edited], "only what was approved is paid");
    browser.close().await;
}
