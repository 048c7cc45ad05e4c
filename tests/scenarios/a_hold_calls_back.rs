//! The end of a hold is reported to its callback by a signed call (M-6).

use holdpoint_auth::WebhookSecret;
use holdpoint_testkit::{Person, until};
use serde_json::{Value, json};

use crate::shop::Shop;
use crate::world::{PATIENCE, World};

async fn callback_of(world: &World, hold: &str) -> Option<Value> {
    let path = format!("/requests/{hold}/deliveries");
    let (status, page) = world.up.get(&path).await.unwrap();
    assert_eq!(status, 200, "{page}");
    let mut items = page["items"].as_array().unwrap().iter();
    items.find(|one| one["channel"] == "callback").cloned()
}

async fn open(world: &World, callback: &str) -> String {
    let body = json!({ "kind": "approval", "question": "Ship?", "callback": callback });
    let (status, hold) = world.up.post("/holds", &body).await.unwrap();
    assert_eq!(status, 201, "{hold}");
    hold["id"].as_str().unwrap().to_owned()
}

/// M-6: the call is signed by Standard Webhooks and repeated under one id until it is accepted, also after a
/// restart.
#[tokio::test]
async fn a_callback_is_repeated_until_it_is_accepted() {
    let mut world = World::with_test_clock().await;
    let shop = Shop::open().await;
    let hold = open(&world, &shop.url("/flaky")).await;
    let approve = format!("/requests/{hold}/approve");
    let (status, decided) = world
        .up
        .post(&approve, &json!({ "comment": "go" }))
        .await
        .unwrap();
    assert_eq!(status, 200, "{decided}");
    let first = until(PATIENCE, "the first try has failed", async || {
        let callback = callback_of(&world, &hold).await?;
        callback["last_error"].is_string().then_some(callback)
    })
    .await
    .unwrap();
    assert_eq!(
        (&first["state"], &first["attempts"], &first["last_error"]),
        (
            &json!("pending"),
            &json!(1),
            &json!("The callback answered 500.")
        ),
    );
    world.up.kill9().await.unwrap();
    world.up.restart().await.unwrap();
    world.advance("5s").await;
    until(PATIENCE, "the second attempt is accepted", async || {
        let callback = callback_of(&world, &hold).await?;
        (callback["state"] == "sent").then_some(())
    })
    .await
    .unwrap();

    let (status, secret) = world.up.get("/webhooks/secret").await.unwrap();
    assert_eq!(status, 200, "{secret}");
    let secret = WebhookSecret::read(secret["secret"].as_str().unwrap()).unwrap();
    let calls = shop.calls();
    assert_eq!(calls.len(), 2);
    for call in &calls {
        let id = call.header("webhook-id");
        assert_eq!(id, first["id"].as_str().unwrap(), "the same both times");
        let at = call.header("webhook-timestamp").parse().unwrap();
        let signature = secret.sign(id, at, &call.body).unwrap();
        assert_eq!(call.header("webhook-signature"), signature);
        let body: Value = serde_json::from_str(&call.body).unwrap();
        let expected = json!({
            "id": hold, "outcome": "approved", "data": "go", "by": "owner", "at": body["at"],
        });
        assert_eq!(body, expected);
    }
    let ada = Person::join(&world.up, "ada", &["operator"]).await.unwrap();
    let (status, _) = ada.get(&world.up, "/webhooks/secret").await.unwrap();
    assert_eq!(status, 403, "only owners and administrators");
}

/// M-6: a fired timer and a withdrawn hold are called back, too.
#[tokio::test]
async fn every_end_is_called_back() {
    let world = World::with_test_clock().await;
    let shop = Shop::open().await;
    let timer = json!({ "kind": "timer", "wait": "2h", "callback": shop.url("/") });
    let (_, timer) = world.up.post("/holds", &timer).await.unwrap();
    let gone = open(&world, &shop.url("/")).await;
    let (status, _) = world.up.delete(&format!("/holds/{gone}")).await.unwrap();
    assert_eq!(status, 200);
    world.advance("2h").await;
    let calls = until(PATIENCE, "both are called back", async || {
        Some(shop.calls()).filter(|calls| calls.len() == 2)
    })
    .await
    .unwrap();
    let mut outcomes: Vec<_> = calls
        .iter()
        .map(|call| serde_json::from_str::<Value>(&call.body).unwrap())
        .map(|body| (body["id"].clone(), body["outcome"].clone()))
        .collect();
    outcomes.sort_by_key(|(_, outcome)| outcome.to_string());
    let expected = [
        (json!(gone), json!("cancelled")),
        (timer["id"].clone(), json!("fired")),
    ];
    assert_eq!(outcomes, expected);
}

/// Issue 4, ask again: the callback, a long poll and the events name the earlier hold.
#[tokio::test]
async fn a_repeated_request_names_the_earlier_one() {
    let world = World::with_test_clock().await;
    let shop = Shop::open().await;
    let hook = json!({ "url": shop.url("/hook"), "events": ["approval.decided"] });
    let (status, added) = world.up.post("/webhooks", &hook).await.unwrap();
    assert_eq!(status, 201, "{added}");
    let first = open(&world, &shop.url("/")).await;
    let (status, _) = world.up.delete(&format!("/holds/{first}")).await.unwrap();
    assert_eq!(status, 200);
    let path = format!("/requests/{first}/ask-again");
    let (status, again) = world.up.post(&path, &json!({})).await.unwrap();
    assert_eq!(status, 201, "{again}");
    let second = again["id"].as_str().unwrap();
    let path = format!("/requests/{second}/approve");
    assert_eq!(world.up.post(&path, &json!({})).await.unwrap().0, 200);
    let path = format!("/holds/{second}?wait=10s");
    let (_, polled) = world.up.get(&path).await.unwrap();
    assert_eq!(
        (&polled["status"], &polled["asks_again"]),
        (&json!("decided"), &json!(first))
    );
    let bodies = until(PATIENCE, "all have been called", async || {
        let calls = shop.calls();
        let bodies: Vec<Value> = calls
            .iter()
            .map(|call| serde_json::from_str(&call.body).unwrap())
            .collect();
        Some(bodies).filter(|bodies| bodies.len() == 3)
    })
    .await
    .unwrap();
    let called = |id: &str| bodies.iter().find(|body| body["id"] == id).unwrap();
    assert_eq!(
        called(&first).get("asks_again"),
        None,
        "it asks nothing again"
    );
    assert_eq!(called(second)["outcome"], "approved");
    assert_eq!(called(second)["asks_again"], json!(first));
    let event = bodies
        .iter()
        .find(|body| body["type"] == "approval.decided");
    assert_eq!(event.unwrap()["data"]["asks_again"], json!(first));
}
