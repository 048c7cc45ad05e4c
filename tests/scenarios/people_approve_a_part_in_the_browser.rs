//! A person checks boxes in the list of a run's waiting calls and decides only those, in Chromium (S2-R4).

use std::collections::BTreeSet;

use holdpoint_testkit::until;
use serde_json::{Value, json};

use crate::browser::{Browser, Browsers, DESK, PHONE};
use crate::shop::Shop;
use crate::world::{PATIENCE, World};

const CALLS: usize = 4;

/// Checks the box of a call. A live update may replace the box at any moment.
async fn check(browser: &Browser, call: &str) {
    let css = format!("[name=\"call:{call}\"]");
    until(PATIENCE, &css, async || {
        let field = browser.find(&css).await;
        let is_checked = field.is_selected().await.ok()?;
        if !is_checked {
            field.click().await.ok()?;
        }
        is_checked.then_some(())
    })
    .await
    .unwrap();
}

/// Waits until these calls of the run, and no others, wait for an approval.
async fn until_waiting(world: &World, run: &str, calls: &[&str]) -> Value {
    until(PATIENCE, &format!("{calls:?} wait"), async || {
        let view = world.run(run).await;
        let steps = view["steps"].as_array()?.iter();
        let waiting = steps.filter(|step| step["status"] == "waiting_confirm");
        let ids: Vec<_> = waiting.filter_map(|step| step["id"].as_str()).collect();
        (ids == calls).then(|| view.clone())
    })
    .await
    .unwrap()
}

fn status_of<'v>(run: &'v Value, call: &str) -> &'v Value {
    let mut steps = run["steps"].as_array().unwrap().iter();
    &steps.find(|step| step["id"] == call).unwrap()["status"]
}

/// Two of four calls are approved and made. One of the others is rejected on a phone without the script, and the last
/// one stays undecided.
#[tokio::test]
async fn only_checked_calls_are_decided() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_real_time().await;
    let shop = Shop::open().await;
    let tool = json!({ "name": "payments.refund", "risk": "high", "idempotent": true,
        "http": { "method": "POST", "url": shop.url("/refunds") } });
    assert_eq!(world.up.post("/tools", &tool).await.unwrap().0, 201);
    let pay = json!({ "id": "pay", "for_each": "$input.orders", "parallel": CALLS,
        "tool": "payments.refund", "args": { "order": "$item" } });
    world.agent("refund", json!([pay])).await;
    let orders: Vec<_> = (0..CALLS).map(|n| format!("o-{n}")).collect();
    let body = json!({ "input": { "orders": orders } });
    let run = world.start_run("refund", body).await;
    until_waiting(&world, &run, &["pay-0", "pay-1", "pay-2", "pay-3"]).await;
    let path = format!("/runs/{run}");

    let browser = browsers.signed_in(&world, &world.up.token, DESK).await;
    browser.go(&path).await;
    browser.reads("Calls of pay that wait: 4").await;
    browser.click("Approve the checked calls").await;
    browser
        .reads("Check the calls that you want to decide.")
        .await;
    check(&browser, "pay-0").await;
    check(&browser, "pay-2").await;
    browser.picture("calls-checked").await;
    browser.click("Approve the checked calls").await;
    browser.reads("Calls of pay that wait: 2").await;
    until_waiting(&world, &run, &["pay-1", "pay-3"]).await;
    browser.picture("calls-approved").await;
    let called = until(PATIENCE, "the approved calls are made", async || {
        let calls = shop.calls();
        let bodies: BTreeSet<_> = calls.iter().map(|call| call.body.clone()).collect();
        (bodies.len() == 2).then_some(bodies)
    });
    let called = called.await.unwrap();
    for order in ["o-0", "o-2"] {
        assert!(called.iter().any(|body| body.contains(order)), "{called:?}");
    }
    browser.close().await;

    let plain = browsers.open(&world, PHONE, false).await;
    plain.sign_in(&world.up.token).await;
    plain.go(&path).await;
    check(&plain, "pay-1").await;
    let reason = plain.find("#calls-pay").await;
    reason.send_keys("Ordered twice").await.unwrap();
    plain.click("Reject the checked calls").await;
    let view = until_waiting(&world, &run, &["pay-3"]).await;
    assert_eq!(status_of(&view, "pay-1"), "skipped", "{view}");
    plain.close().await;
}
