//! `serve` calls private addresses only where that is allowed. `up` calls them, because it belongs to the owner of the
//! machine.

use holdpoint_testkit::until;
use reqwest::Method;
use serde_json::{Value, json};

use crate::fleet::{Api, Ground};
use crate::shop::Shop;
use crate::world::{PATIENCE, World};

const REFUSED: &str = "is not a public address";

/// A short hold with a callback. Returns the state of the call and its error.
async fn called_back(api: &Api, url: &str) -> (String, String) {
    let body = json!({ "kind": "timer", "wait": "1s", "callback": url });
    let (status, hold) = api.post("/holds", &body).await;
    assert_eq!(status, 201, "{hold}");
    let path = format!("/requests/{}/deliveries", hold["id"].as_str().unwrap());
    until(PATIENCE, "the callback is through", async || {
        let (_, page) = api.call(Method::GET, &path, &Value::Null).await;
        let one = page["items"].as_array()?.first()?.clone();
        let state = one["state"].as_str()?.to_owned();
        let why = one["last_error"].as_str().unwrap_or_default().to_owned();
        (state != "pending").then_some((state, why))
    })
    .await
    .unwrap()
}

/// A run of one step that calls an address. Returns its end and its error.
async fn step_called(api: &Api, url: &str) -> (Value, String) {
    let call = json!({ "method": "POST", "url": url });
    let agent = json!({ "agent": "calls", "steps": [{ "tool": "http_request", "args": call }] });
    assert!(api.post("/agents", &agent).await.0 < 300);
    let (_, run) = api.post("/agents/calls/runs", &json!({})).await;
    let path = format!("/runs/{}", run["id"].as_str().unwrap());
    let ended = until(PATIENCE, "the run ends", async || {
        let run = api.get(&path).await;
        ["completed", "failed"]
            .contains(&run["status"].as_str()?)
            .then_some(run)
    });
    let ended = ended.await.unwrap();
    let why = ended["failure"]["message"].as_str().unwrap_or_default();
    (ended["status"].clone(), why.to_owned())
}

/// People "Must", bad input: webhooks, chats, callbacks and tools do not call a private address, by number or by name.
/// The same services call it where that is allowed.
#[tokio::test]
async fn serve_calls_only_public_addresses_unless_it_is_allowed() {
    let shop = Shop::open().await;
    let mut ground = Ground::on_sqlite().await;
    ground.allows_private = false;
    let _scheduler = ground.serve("scheduler", &[]).await;
    let _handoff = ground.serve("handoff", &[]).await;
    let executor = ground.serve("executor", &[]).await;
    let notification = ground.serve("notification", &[]).await;
    let worker = ground.worker().await;
    let args = ["--http", "127.0.0.1:0", "--owner-token"];
    let gateway = ground.serve("gateway", &args).await;
    let api = Api::of(&gateway);
    let literal = shop.url("/called");
    // The name is accepted, and the private address that it resolves to is not called.
    let named = literal.replace("127.0.0.1", "localhost");

    let webhook = |url: &str| json!({ "url": url, "events": ["approval.requested"] });
    let chat = |url: &str| json!({ "channels": { "chat": { "url": url } } });
    let metadata = "http://169.254.169.254/latest/meta-data";
    for url in [&*literal, metadata, "http://[::1]:80/", "http://10.0.0.1/"] {
        let (status, refused) = api.post("/webhooks", &webhook(url)).await;
        assert_eq!(status, 422, "{url}: {refused}");
        assert!(
            refused["detail"].as_str().unwrap().contains(REFUSED),
            "{refused}"
        );
        let https = url.replace("http://", "https://");
        let (status, refused) = api.call(Method::PUT, "/preferences", &chat(&https)).await;
        assert_eq!(status, 422, "{https}: {refused}");
        assert!(
            refused["detail"].as_str().unwrap().contains(REFUSED),
            "{refused}"
        );
    }
    for url in [&literal, &named] {
        let (state, why) = called_back(&api, url).await;
        assert_eq!(state, "failed", "{why}");
        assert!(why.contains(REFUSED), "{why}");
        let (status, why) = step_called(&api, url).await;
        assert_eq!(status, "failed", "{why}");
        assert!(why.contains(REFUSED), "{why}");
    }
    assert!(shop.calls().is_empty(), "nothing was called");

    // The same system with permission.
    for process in [notification, executor, worker] {
        process.terminate().await;
    }
    ground.allows_private = true;
    let _executor = ground.serve("executor", &[]).await;
    let _notification = ground.serve("notification", &[]).await;
    let _worker = ground.worker().await;
    for url in [&literal, &named] {
        assert_eq!(called_back(&api, url).await.0, "sent");
        assert_eq!(step_called(&api, url).await.0, "completed");
    }
    assert_eq!(shop.calls().len(), 4);
    let (status, added) = api.post("/webhooks", &webhook(&literal)).await;
    assert_eq!(status, 201, "{added}");
    let (status, set) = api.call(Method::PUT, "/preferences", &chat(&literal)).await;
    assert_eq!(status, 200, "{set}");
}

/// `up` lets tools, callbacks and webhooks reach loopback. Callbacks and webhooks follow no redirect.
#[tokio::test]
async fn up_calls_loopback_and_follows_no_redirect_of_a_callback() {
    let (shop, inside) = (Shop::open().await, Shop::open().await);
    let redirect = shop.url(&format!("/away?to={}", inside.url("/inside")));
    let world = World::with_real_time().await;
    for (url, state) in [(shop.url("/called"), "sent"), (redirect, "pending")] {
        let body = json!({ "kind": "timer", "wait": "1s", "callback": url });
        let (status, hold) = world.up.post("/holds", &body).await.unwrap();
        assert_eq!(status, 201, "{hold}");
        let path = format!("/requests/{}/deliveries", hold["id"].as_str().unwrap());
        let one = until(PATIENCE, "it was called", async || {
            let (_, page) = world.up.get(&path).await.unwrap();
            let one = page["items"].as_array()?.first()?.clone();
            (one["attempts"].as_u64()? > 0 && one["state"] == state).then_some(one)
        });
        let one = one.await.unwrap();
        if state == "pending" {
            assert_eq!(one["last_error"], "The callback answered 302.", "{one}");
        }
    }
    assert!(inside.calls().is_empty(), "the redirect was not followed");
    let webhook = json!({ "url": shop.url("/called"), "events": ["approval.requested"] });
    assert_eq!(world.up.post("/webhooks", &webhook).await.unwrap().0, 201);
}
