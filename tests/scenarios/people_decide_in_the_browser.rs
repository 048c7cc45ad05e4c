//! A person decides requests on the pages, in Chromium.

use std::time::Duration;

use fantoccini::key::Key;
use holdpoint_contracts::handoff::RequestView;
use holdpoint_contracts::hold::{HoldSpec, OnTimeout, Priority};
use holdpoint_contracts::link::Link;
use holdpoint_contracts::run::HoldKind;
use holdpoint_testkit::until;
use serde_json::{Value, json};

use crate::browser::{Browsers, DESK, PHONE, ask};
use crate::shop::Shop;
use crate::world::{PATIENCE, World};

const TIMEOUT: Duration = Duration::from_hours(52);

fn refund() -> HoldSpec {
    HoldSpec {
        title: Some("Refund 250.00 EUR to Ada Lovelace".to_owned()),
        priority: Priority::High,
        agent: Some("refund".parse().unwrap()),
        on_timeout: OnTimeout::Escalate,
        context: json!({
            "recommended_action": "Approve: the parcel came back on Monday, unopened.",
            "contact": {"id": "c-204", "name": "Ada Lovelace", "email": "ada@example.org", "customer_since": "March 2023"},
            "order": "A-10442",
            "amount": "250.00 EUR",
            "findings": ["Parcel returned and checked in", "Two refunds in three years, both small"],
            "emails": [{"subject": "Where is my refund?", "direction": "in", "at": "19 Nov, 14:20"}],
        }),
        ..HoldSpec::asking(
            HoldKind::Approval,
            "The customer sent the parcel back. May the agent pay the whole amount to the card it came from?",
        )
    }
}

fn form() -> HoldSpec {
    HoldSpec {
        schema: Some(json!({
            "type": "object",
            "properties": {
                "amount": {"type": "number", "title": "Amount in EUR", "minimum": 0, "description": "What the customer gets back"},
                "parts": {"type": "integer", "title": "In how many parts"},
                "way": {"type": "string", "title": "How", "enum": ["bank", "card"], "enumNames": ["Bank transfer", "Card"]},
                "tell": {"type": "boolean", "title": "Tell the customer"},
                "note": {"type": "string", "title": "Note", "maxLength": 1000},
            },
            "required": ["amount", "way", "tell"],
        })),
        ..HoldSpec::asking(HoldKind::Input, "How shall the refund be paid?")
    }
}

async fn decided(world: &World, request: &RequestView) -> Value {
    let path = format!("/requests/{}", request.id);
    world.up.get(&path).await.unwrap().1
}

/// A new request appears live. A click approves it, and a rejection needs a reason.
#[tokio::test]
async fn a_person_approves_and_rejects() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_real_time().await;
    let browser = browsers.open(&world, DESK, true).await;
    browser.client.goto(&world.up.login).await.unwrap();
    browser.click("Sign in as owner").await;
    browser.reads("No open requests").await;
    browser.picture("inbox-empty").await;

    let first = ask(&world, refund(), TIMEOUT).await;
    browser.reads("Refund 250.00 EUR to Ada Lovelace").await;
    browser.reads("in 2 days").await;
    let second = ask(
        &world,
        HoldSpec::asking(HoldKind::Approval, "Delete the old export?"),
        TIMEOUT,
    )
    .await;
    browser.reads("Delete the old export?").await;
    browser.go("/inbox").await;
    browser.picture("inbox").await;
    browser.go(&format!("/requests/{}", first.id)).await;
    browser.picture("request").await;
    browser.click("Add a comment").await;
    browser.fill("comment", "Checked in the warehouse").await;
    browser.click("Approve").await;
    browser.reads("Approved by owner").await;
    browser.reads("Checked in the warehouse").await;
    browser.picture("approved").await;
    let view = decided(&world, &first).await;
    assert_eq!(
        (&view["outcome"], &view["response"]),
        (&json!("approved"), &json!("Checked in the warehouse"))
    );

    browser.go("/inbox").await;
    browser.click("Reject…").await;
    let reason = browser.find("[name=reason]").await;
    let reject = browser.find(".danger").await;
    reject.click().await.unwrap();
    let is_invalid = "return document.querySelector('[name=reason]').matches(':invalid')";
    assert_eq!(browser.asks(is_invalid).await, true);
    assert_eq!(decided(&world, &second).await["status"], "open");
    reason.send_keys("It is still needed").await.unwrap();
    browser.picture("rejecting").await;
    reject.click().await.unwrap();
    browser.reads("Rejected by owner").await;
    assert_eq!(decided(&world, &second).await["outcome"], "rejected");
    browser.close().await;
}

/// Options are buttons, and a schema is a form.
#[tokio::test]
async fn a_person_answers_questions() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_real_time().await;
    let browser = browsers.signed_in(&world, &world.up.token, DESK).await;
    let question = HoldSpec {
        options: vec!["yes".to_owned(), "no".to_owned()],
        ..HoldSpec::asking(HoldKind::Input, "Tell the customer?")
    };
    let question = ask(&world, question, TIMEOUT).await;
    browser.reads("Tell the customer?").await;
    browser
        .find("button[value=no]")
        .await
        .click()
        .await
        .unwrap();
    browser.reads("Answered by owner").await;
    assert_eq!(decided(&world, &question).await["response"], "no");

    let asked = ask(&world, form(), TIMEOUT).await;
    browser.go(&format!("/requests/{}", asked.id)).await;
    browser.fill("answer.amount", "12.5").await;
    browser.click("Bank transfer").await;
    browser.click("Yes").await;
    browser.fill("answer.note", "Two lines,\nno less").await;
    browser.picture("form").await;
    browser.click("Send answer").await;
    browser.reads("Answered by owner").await;
    assert_eq!(
        decided(&world, &asked).await["response"],
        json!({"amount": 12.5, "way": "bank", "tell": true, "note": "Two lines,\nno less"})
    );
    browser.close().await;
}

/// A secret is entered at another site, whose host is shown first. By keyboard, and without the script.
#[tokio::test]
async fn a_person_enters_a_secret_elsewhere() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_real_time().await;
    let shop = Shop::open().await;
    let spec = HoldSpec {
        title: Some("A key for the CRM".to_owned()),
        link: Some(Link {
            url: shop.url("/new?for=crm"),
            label: Some("Open the vault".to_owned()),
        }),
        ..HoldSpec::asking(
            HoldKind::Input,
            "Put a key that may read contacts into the vault, under the name crm.",
        )
    };
    let asked = ask(&world, spec.clone(), TIMEOUT).await;
    let path = format!("/requests/{}", asked.id);
    let live = browsers.signed_in(&world, &world.up.token, DESK).await;
    live.go(&path).await;
    live.reads("Enter this at 127.0.0.1:").await;
    live.picture("link").await;
    let link = live.find(".elsewhere a").await;
    assert_eq!(
        link.attr("rel").await.unwrap().as_deref(),
        Some("noopener noreferrer")
    );
    link.click().await.unwrap();
    until(PATIENCE, "the other site is visited", async || {
        (!shop.calls().is_empty()).then_some(())
    })
    .await
    .unwrap();
    let call = &shop.calls()[0];
    assert_eq!(call.header("referer"), "", "no referrer is sent");
    live.reads("A key for the CRM").await;
    let done = live.find("button[value=done]").await;
    done.send_keys(&String::from(char::from(Key::Enter)))
        .await
        .unwrap();
    live.reads("Answered by owner").await;
    live.picture("link-done").await;
    assert_eq!(decided(&world, &asked).await["response"], "done");
    live.close().await;

    let asked = ask(&world, spec, TIMEOUT).await;
    let plain = browsers.open(&world, PHONE, false).await;
    plain.sign_in(&world.up.token).await;
    plain.go(&format!("/requests/{}", asked.id)).await;
    plain.reads("Open the vault").await;
    plain.picture("link-phone").await;
    plain.click("Decline").await;
    plain.reads("Answered by owner").await;
    assert_eq!(decided(&world, &asked).await["response"], "declined");
    plain.close().await;
}

/// When two people decide, the second reads who was first. One of them has no script.
#[tokio::test]
async fn two_people_decide_at_once() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_real_time().await;
    let bob = json!({"name": "bob", "roles": ["member", "manager"]});
    let (status, made) = world.up.post("/users", &bob).await.unwrap();
    assert_eq!(status, 201, "{made}");
    let (_, token) = world
        .up
        .post("/tokens", &json!({"user": "bob"}))
        .await
        .unwrap();
    let plain = browsers.open(&world, DESK, false).await;
    plain.sign_in(token["token"].as_str().unwrap()).await;
    let spec = HoldSpec {
        to: vec!["@role.manager".to_owned()],
        ..refund()
    };
    let asked = ask(&world, spec, TIMEOUT).await;
    let path = format!("/requests/{}", asked.id);
    plain.go(&path).await;
    let live = browsers.signed_in(&world, &world.up.token, DESK).await;
    live.click("Approve").await;
    live.reads("Approved by owner").await;

    plain.click("Reject…").await;
    plain.fill("reason", "Too much").await;
    plain.find(".danger").await.click().await.unwrap();
    plain
        .reads("This request was already approved by owner")
        .await;
    plain.reads("Your answer is kept as a late answer").await;
    plain.picture("second").await;
    live.go(&path).await;
    live.reads("Too much").await;
    assert_eq!(decided(&world, &asked).await["outcome"], "approved");
    live.close().await;
    plain.close().await;
}

/// By keyboard alone, and on a phone without anything beyond its edge.
#[tokio::test]
async fn the_inbox_works_by_keyboard_and_on_a_phone() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_real_time().await;
    let asked = ask(&world, refund(), TIMEOUT).await;
    ask(&world, form(), TIMEOUT).await;
    let phone = browsers.signed_in(&world, &world.up.token, PHONE).await;
    phone.reads("Send answer").await;
    for path in [
        "/inbox".to_owned(),
        format!("/requests/{}", asked.id),
        "/runs".to_owned(),
    ] {
        phone.go(&path).await;
        let fits = "return document.documentElement.scrollWidth <= innerWidth";
        assert_eq!(phone.asks(fits).await, true, "{path}");
    }
    phone.go("/inbox").await;
    phone.picture("phone").await;
    phone.close().await;

    let dark = ["--blink-settings=preferredColorScheme=0"];
    let desk = browsers.open_with(&world, DESK, true, &dark).await;
    desk.sign_in(&world.up.token).await;
    desk.reads("Refund 250.00 EUR").await;
    desk.press("j").await;
    desk.press_enter().await;
    desk.picture("keyboard-dark").await;
    desk.press_enter().await;
    desk.reads("Approved by owner").await;
    desk.press("?").await;
    desk.reads("next card").await;
    assert_eq!(decided(&world, &asked).await["outcome"], "approved");
    desk.close().await;
}

/// A run's page shows its holds and its events live.
#[tokio::test]
async fn a_run_is_watched_live() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_test_clock().await;
    let steps = json!([
        {"tool": "log", "args": {"message": "Introduction sent"}},
        {"wait": "5 days"},
        {"tool": "log", "args": {"message": "Follow-up sent"}},
    ]);
    world.agent("outreach", steps).await;
    let run = world
        .start_run("outreach", json!({"contact": {"id": "ada"}}))
        .await;
    world.settle().await;
    let browser = browsers.signed_in(&world, &world.up.token, DESK).await;
    browser.go("/runs").await;
    browser.click("outreach").await;
    browser.reads("Waiting for people").await;
    browser.reads("in 4 days 23 hours").await;
    browser.picture("run").await;
    world.act(&run, "pause", json!({})).await;
    browser.reads("Timers are stopped").await;
    world.act(&run, "resume", json!({})).await;
    world.advance("5 days").await;
    browser.reads("Completed").await;
    browser.picture("run-completed").await;
    browser.close().await;
}
