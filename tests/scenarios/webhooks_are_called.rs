//! The webhooks of a workspace are called for request events and run ends (People, deliverable 7).

use std::collections::BTreeSet;

use holdpoint_auth::WebhookSecret;
use holdpoint_testkit::{Person, until};
use serde_json::{Value, json};

use crate::shop::{Call, Shop};
use crate::world::{PATIENCE, World};

struct Webhook {
    id: String,
    secret: WebhookSecret,
}

async fn webhook(world: &World, body: Value) -> Webhook {
    let (status, added) = world.up.post("/webhooks", &body).await.unwrap();
    assert_eq!(status, 201, "{added}");
    Webhook {
        id: added["id"].as_str().unwrap().to_owned(),
        secret: WebhookSecret::read(added["secret"].as_str().unwrap()).unwrap(),
    }
}

async fn ask(world: &World, question: &str) -> String {
    let body = json!({ "kind": "approval", "question": question, "title": "Ship" });
    let (status, hold) = world.up.post("/holds", &body).await.unwrap();
    assert_eq!(status, 201, "{hold}");
    hold["id"].as_str().unwrap().to_owned()
}

async fn reject(world: &World, hold: &str, reason: &str) {
    let path = format!("/requests/{hold}/reject");
    let (status, done) = world
        .up
        .post(&path, &json!({ "reason": reason }))
        .await
        .unwrap();
    assert_eq!(status, 200, "{done}");
}

/// The deliveries of a webhook, newest first.
async fn deliveries(world: &World, webhook: &Webhook) -> Vec<Value> {
    let path = format!("/webhooks/{}/deliveries", webhook.id);
    let (status, page) = world.up.get(&path).await.unwrap();
    assert_eq!(status, 200, "{page}");
    page["items"].as_array().unwrap().clone()
}

/// Checks the signature over id, time and body as a receiver does.
fn read(call: &Call, secret: &WebhookSecret) -> Value {
    let at = call.header("webhook-timestamp").parse().unwrap();
    let signed = secret.sign(call.header("webhook-id"), at, &call.body);
    assert_eq!(call.header("webhook-signature"), signed.unwrap());
    serde_json::from_str(&call.body).unwrap()
}

/// People, deliverable 7: calls are signed, made at least once under a stable id, also after a restart, and have a
/// receipt.
#[tokio::test]
async fn a_webhook_is_called_until_it_accepts() {
    let mut world = World::with_test_clock().await;
    let shop = Shop::open().await;
    let flaky = json!({ "url": shop.url("/flaky"), "events": ["approval.*"] });
    let webhook = webhook(&world, flaky).await;
    let hold = ask(&world, "Ship 4.2?").await;
    until(PATIENCE, "the first call has failed", async || {
        let delivery = deliveries(&world, &webhook).await.pop()?;
        delivery["last_error"].is_string().then_some(delivery)
    })
    .await
    .unwrap();
    let (_, page) = world.up.get("/webhooks").await.unwrap();
    let shown = &page["items"][0];
    assert_eq!(shown["last_error"], "The webhook answered 500.");
    assert!(
        shown["failing_since"].is_string() && shown["secret"].is_null(),
        "{shown}"
    );

    world.up.kill9().await.unwrap();
    world.up.restart().await.unwrap();
    reject(&world, &hold, "Too soon").await;
    world.advance("5s").await;
    let all = until(PATIENCE, "both are handled", async || {
        let all = deliveries(&world, &webhook).await;
        let is_sent = |one: &Value| one["state"] == "sent";
        (all.len() == 2 && all.iter().all(is_sent)).then_some(all)
    })
    .await
    .unwrap();
    assert!(
        all.iter().all(|one| one["receipt"] == "HTTP 200"),
        "{all:?}"
    );

    let calls = shop.calls();
    let ids: BTreeSet<_> = calls
        .iter()
        .map(|call| call.header("webhook-id").to_owned())
        .collect();
    let known: BTreeSet<_> = all
        .iter()
        .map(|one| one["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        ids, known,
        "a receiver that ignores repeated ids has two events"
    );
    assert!(calls.len() >= 3, "at least one call is repeated");
    let bodies: Vec<_> = calls
        .iter()
        .map(|call| read(call, &webhook.secret))
        .collect();
    let of = |event: &str| bodies.iter().find(|body| body["type"] == event).unwrap();
    let requested = of("approval.requested");
    assert_eq!(requested["data"]["request"], hold);
    assert_eq!(requested["data"]["question"], "Ship 4.2?");
    let link = requested["data"]["link"].as_str().unwrap();
    assert!(
        link.ends_with(&format!("/requests/{hold}")),
        "no token: {link}"
    );
    let decided = &of("approval.decided")["data"];
    assert_eq!(
        (&decided["outcome"], &decided["by"], &decided["response"]),
        (&json!("rejected"), &json!("owner"), &json!("Too soon"))
    );
    let (_, page) = world.up.get("/webhooks").await.unwrap();
    assert_eq!(page["items"][0]["failing_since"], Value::Null);
}

/// People, deliverable 7 and "Must": a chat receives the question and the decision as plain text.
#[tokio::test]
async fn a_chat_receives_the_question_and_the_decision() {
    let world = World::with_test_clock().await;
    let shop = Shop::open().await;
    let slack = json!({
        "url": shop.url("/services/T0/B0/x"), "events": ["approval.requested"], "format": "slack",
    });
    let webhook = webhook(&world, slack).await;
    let evil = "<!channel> <b>Ship</b> & <https://evil.example|click>?\u{1b}\r\n";
    let hold = ask(&world, evil).await;
    let until_called = async |count: usize| {
        until(PATIENCE, "the chat is called", async || {
            Some(shop.calls()).filter(|calls| calls.len() == count)
        })
        .await
        .unwrap()
    };
    until_called(1).await;
    reject(&world, &hold, "<!here> no").await;
    let calls = until_called(2).await;
    for call in &calls {
        assert!(!call.body.contains(['<', '>', '\u{1b}']), "{}", call.body);
    }
    let asked = read(&calls[0], &webhook.secret);
    assert_eq!(asked["text"], "Approval wanted: Ship");
    let said = asked["blocks"][1]["text"]["text"].as_str().unwrap();
    assert!(said.starts_with("&lt;!channel&gt; &lt;b&gt;Ship"), "{said}");
    let button = asked["blocks"][3]["elements"][0]["url"].as_str().unwrap();
    let page = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .build()
        .unwrap()
        .get(button)
        .send()
        .await
        .unwrap();
    assert_eq!(page.status(), 303, "a log-in is needed");
    let decided = read(&calls[1], &webhook.secret);
    assert_eq!(decided["text"], "Rejected: Ship");
    assert_eq!(
        decided["blocks"][1]["text"]["text"],
        "owner: rejected. &lt;!here&gt; no"
    );
}

/// Invalid webhooks are refused with a pointer, only administrators manage them, and a removed one is not called.
#[tokio::test]
async fn only_administrators_manage_webhooks() {
    let world = World::with_test_clock().await;
    let shop = Shop::open().await;
    let ada = Person::join(&world.up, "ada", &["operator"]).await.unwrap();
    let fine = json!({ "url": shop.url("/"), "events": ["*"] });
    let (status, refused) = ada.post(&world.up, "/webhooks", &fine).await.unwrap();
    assert_eq!(status, 403, "{refused}");
    for (body, pointer) in [
        (
            json!({ "url": "file:///etc/passwd", "events": ["*"] }),
            "/url",
        ),
        (json!({ "url": shop.url("/"), "events": [] }), "/events"),
        (
            json!({ "url": shop.url("/"), "events": ["*", "approval.opened"] }),
            "/events/1",
        ),
        (
            json!({ "url": shop.url("/"), "events": ["*"], "format": "teams" }),
            "/format",
        ),
    ] {
        let (status, refused) = world.up.post("/webhooks", &body).await.unwrap();
        assert_eq!(
            (status, &refused["code"]),
            (422, &json!("invalid_body")),
            "{refused}"
        );
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{refused}");
    }
    let webhook = webhook(&world, fine).await;
    let path = format!("/webhooks/{}", webhook.id);
    assert_eq!(world.up.delete(&path).await.unwrap().0, 204);
    assert_eq!(world.up.delete(&path).await.unwrap().0, 404);
    let (_, page) = world.up.get("/webhooks").await.unwrap();
    assert_eq!(page["items"], json!([]));
    ask(&world, "Anybody?").await;
    world.settle().await;
    assert!(shop.calls().is_empty());
}

/// The user who added a webhook is notified once that it was disabled, and can enable it again.
#[tokio::test]
async fn a_disabled_webhook_causes_a_notice_and_can_be_enabled() {
    let world = World::with_test_clock().await;
    let shop = Shop::open().await;
    let ada = Person::join(&world.up, "ada", &["admin"]).await.unwrap();
    let body = json!({ "url": shop.url("/gone"), "events": ["approval.requested"] });
    let (status, added) = ada.post(&world.up, "/webhooks", &body).await.unwrap();
    assert_eq!(status, 201, "{added}");
    let path = format!("/webhooks/{}", added["id"].as_str().unwrap());
    ask(&world, "Anybody?").await;
    let notices = async || {
        let (_, page) = ada.get(&world.up, "/notifications").await.unwrap();
        let all = page["items"].as_array().unwrap().clone();
        let is_system = |one: &Value| one["type"] == "system";
        all.into_iter().filter(is_system).collect::<Vec<_>>()
    };
    let notice = until(PATIENCE, "ada is notified", async || notices().await.pop())
        .await
        .unwrap();
    assert_eq!(
        notice["title"], "Webhook to 127.0.0.1 is disabled",
        "{notice}"
    );
    assert_eq!(
        (&notice["request"], &notice["read_at"]),
        (&Value::Null, &Value::Null)
    );
    let read = format!("/notifications/{}/read", notice["id"].as_str().unwrap());
    let (status, copy) = ada.post(&world.up, &read, &json!({})).await.unwrap();
    assert_eq!(status, 200, "{copy}");
    assert!(copy["read_at"].is_string(), "{copy}");
    ask(&world, "Still nobody?").await;
    world.settle().await;
    assert_eq!(notices().await.len(), 1, "once");

    let wrong = json!({ "url": shop.url("/"), "events": ["approval.opened"] });
    let (status, refused) = ada.put(&world.up, &path, &wrong).await.unwrap();
    assert_eq!(
        (status, &refused["errors"][0]["pointer"]),
        (422, &json!("/events/0"))
    );
    let again = json!({ "url": shop.url("/"), "events": ["approval.requested"], "enabled": true });
    let (status, enabled) = ada.put(&world.up, &path, &again).await.unwrap();
    assert_eq!(
        (status, &enabled["status"], &enabled["last_error"]),
        (200, &json!("active"), &Value::Null),
        "{enabled}"
    );
    assert_eq!(enabled["secret"], Value::Null);
    let before = shop.calls().len();
    ask(&world, "Now?").await;
    until(PATIENCE, "it is called again", async || {
        (shop.calls().len() > before).then_some(())
    })
    .await
    .unwrap();
    let other = Person::join(&world.up, "bob", &["operator"]).await.unwrap();
    let (status, _) = other.put(&world.up, &path, &again).await.unwrap();
    assert_eq!(status, 403);
}

/// Mend C-10: a webhook is called for all run ends, also without watchers.
#[tokio::test]
async fn a_webhook_is_called_for_every_run_end() {
    let world = World::with_test_clock().await;
    let shop = Shop::open().await;
    let steps = json!([{ "tool": "log", "args": { "message": "hi" } }]);
    world.agent("quick", steps).await;
    let early = world.start_run("quick", json!({})).await;
    world.until_status(&early, "completed").await;
    let wanted = json!({ "url": shop.url("/ok"), "events": ["run.completed", "run.cancelled"] });
    let webhook = webhook(&world, wanted).await;
    // The executor learns of the webhook a moment after the caller.
    until(PATIENCE, "the first end is called", async || {
        let run = world.start_run("quick", json!({})).await;
        world.until_status(&run, "completed").await;
        (!shop.calls().is_empty()).then_some(())
    })
    .await
    .unwrap();
    world.agent("slow", json!([{ "wait": "1 day" }])).await;
    let slow = world.start_run("slow", json!({})).await;
    world.until_status(&slow, "waiting").await;
    let path = format!("/runs/{slow}/cancel");
    world.up.post(&path, &json!({})).await.unwrap();
    let mut bodies: Vec<Value> = until(
        PATIENCE,
        "the end of the cancelled run is called",
        async || {
            let calls = shop.calls().into_iter();
            let bodies: Vec<_> = calls.map(|call| read(&call, &webhook.secret)).collect();
            let is_it = |one: &Value| one["data"]["run"] == slow;
            bodies.iter().any(is_it).then_some(bodies)
        },
    )
    .await
    .unwrap();
    bodies.retain(|one| one["data"]["run"] == slow || one["data"]["run"] == early);
    let ends: Vec<_> = bodies.iter().map(|one| &one["type"]).collect();
    assert_eq!(
        ends,
        ["run.cancelled"],
        "no end before the webhook is called: {bodies:?}"
    );
}
