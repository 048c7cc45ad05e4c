//! A person creates a standing approval from a request, sees its use and revokes it on the pages, in Chromium (S2-R4).

use holdpoint_testkit::until;
use serde_json::{Value, json};

use crate::browser::{Browser, Browsers, DESK, PHONE};
use crate::shop::Shop;
use crate::world::{PATIENCE, World};

async fn start(world: &World, amount: u32) -> String {
    let body = json!({ "input": { "amount": amount } });
    world.start_run("refund", body).await
}

/// The request that a run waits for.
async fn request_of(world: &World, run: &str) -> String {
    let waiting = world.until_status(run, "awaiting_approval").await;
    let id = waiting["waiting_on"][0]["id"].as_str().unwrap().to_owned();
    until(PATIENCE, "the request is open", async || {
        let (status, _) = world.up.get(&format!("/requests/{id}")).await.unwrap();
        (status == 200).then_some(())
    })
    .await
    .unwrap();
    id
}

/// Replaces the value of a field.
async fn set(browser: &Browser, name: &str, value: &str) {
    let script = format!("document.getElementsByName('{name}')[0].value = '{value}'");
    browser.asks(&script).await;
}

async fn fits(browser: &Browser) -> Value {
    let beside = "return document.documentElement.scrollWidth <= innerWidth
        && ![...document.querySelectorAll('main *')].some((one) => one.getBoundingClientRect().right > innerWidth)";
    browser.asks(beside).await
}

/// The form begins with the call of the request. After the person has widened the limits, a later call runs without
/// a question, and a call after the revocation asks again.
#[tokio::test]
async fn a_standing_approval_is_created_used_and_revoked() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_real_time().await;
    let shop = Shop::open().await;
    let tool = json!({ "name": "payments.refund", "version": "2.1", "risk": "high",
        "http": { "method": "POST", "url": shop.url("/refunds") } });
    assert_eq!(world.up.post("/tools", &tool).await.unwrap().0, 201);
    let args = json!({ "amount": "$input.amount", "currency": "EUR" });
    let pay = json!([{ "id": "pay", "tool": "payments.refund", "args": args }]);
    world.agent("refund", pay).await;
    let asking = start(&world, 50).await;
    let request = request_of(&world, &asking).await;

    let browser = browsers.signed_in(&world, &world.up.token, DESK).await;
    browser.click("Standing approvals").await;
    browser.reads("No standing approvals").await;
    browser.picture("standing-approvals-empty").await;
    browser.go(&format!("/requests/{request}")).await;
    browser.click("Approve such calls in advance").await;
    browser.reads("Create a standing approval").await;
    let begins = "return document.getElementsByName('args_schema')[0].value";
    let exact = browser.asks(begins).await;
    assert!(exact.as_str().unwrap().contains("\"const\": 50"), "{exact}");
    browser.fill("max_uses", "0").await;
    browser.fill("expires_in", "30 days").await;
    browser.fill("reason", "Small refunds").await;
    browser.picture("standing-approval-form").await;
    browser.click("Create the standing approval").await;
    browser.reads("expected 1 to 10000").await;
    browser.picture("standing-approval-wrong").await;
    set(&browser, "max_uses", "3").await;
    let schema = r#"{"properties": {"amount": {"maximum": 100}, "currency": {"const": "EUR"}}, "required": ["amount"], "additionalProperties": false}"#;
    set(&browser, "args_schema", schema).await;
    browser.click("Create the standing approval").await;
    browser.reads("Standing approval created.").await;
    browser.reads("Used 0 of 3").await;
    browser.reads("No call has been approved by it.").await;

    let covered = start(&world, 99).await;
    world.until_status(&covered, "completed").await;
    browser.click("Standing approvals").await;
    browser.reads("Used 1 of 3").await;
    browser.picture("standing-approvals").await;
    browser.click("payments.refund").await;
    browser.reads("Use 1: request").await;
    revoke(&browser, "standing-approval-revoking").await;
    browser.picture("standing-approval-revoked").await;
    let (_, list) = world.up.get("/standing-approvals").await.unwrap();
    assert_eq!(list["items"][0]["status"], "revoked", "{list}");
    let later = start(&world, 1).await;
    request_of(&world, &later).await;
    assert_eq!(shop.calls().len(), 1, "only the covered call is made");
    browser.close().await;
}

/// Opens the button, reads the consequence and confirms.
async fn revoke(browser: &Browser, picture: &str) {
    browser.click("Revoke…").await;
    browser
        .reads("Later calls are asked of people again.")
        .await;
    let confirm = browser.find("details[open] button.danger").await;
    browser.picture(picture).await;
    confirm.click().await.unwrap();
    browser.reads("Standing approval revoked.").await;
    browser.reads("Revoked by owner").await;
    assert!(!browser.text().await.contains("Revoke…"));
}

/// Nothing is cut off on a phone, and all of it works without the script.
#[tokio::test]
async fn standing_approvals_work_on_a_phone_without_the_script() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_real_time().await;
    let long = "payments.international-refunds-of-subscriptions";
    let schema = json!({ "properties": { "reference": { "pattern": "^[A-Z]{3}-[0-9]{4}-[0-9]{4}-[0-9]{4}-[0-9]{4}$" } } });
    let terms = json!({ "agent": "refunds-for-returned-parcels", "tool": long, "version": "2026.11.22+14",
        "args_schema": schema, "max_uses": 10, "expires_in": "7d", "reason": "Parcels came back" });
    for _ in 0..2 {
        let (status, made) = world.up.post("/standing-approvals", &terms).await.unwrap();
        assert_eq!(status, 201, "{made}");
    }
    let phone = browsers.signed_in(&world, &world.up.token, PHONE).await;
    phone.go("/standing-approvals").await;
    phone.reads(long).await;
    assert_eq!(fits(&phone).await, true, "nothing is cut off");
    phone.picture("standing-approvals-phone").await;
    phone.go("/standing-approvals/new").await;
    phone.reads("Limits on arguments").await;
    assert_eq!(fits(&phone).await, true, "nothing is cut off");
    phone.picture("standing-approval-form-phone").await;
    phone.close().await;

    let plain = browsers.open(&world, PHONE, false).await;
    plain.sign_in(&world.up.token).await;
    plain.click("Standing approvals").await;
    revoke(&plain, "standing-approval-revoking-phone").await;
    let (_, list) = world.up.get("/standing-approvals").await.unwrap();
    let items = list["items"].as_array().unwrap().iter();
    let revoked = items.filter(|one| one["status"] == "revoked").count();
    assert_eq!(revoked, 1, "{list}");
    plain.close().await;
}
