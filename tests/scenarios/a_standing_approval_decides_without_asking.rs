//! A person approves calls in advance. Calls within the terms run at once; all others ask (S2-R4).

use holdpoint_testkit::{Up, postgres, until};
use reqwest::Method;
use serde_json::{Value, json};

use crate::fleet::Api;
use crate::shop::Shop;
use crate::world::{PATIENCE, World};

const LIST: &str = "/standing-approvals";

#[tokio::test]
async fn a_standing_approval_decides_without_asking() {
    approves_twice(&[]).await;
}

/// The same on Postgres.
#[tokio::test]
async fn a_standing_approval_decides_without_asking_on_postgres() {
    let Some(postgres) = postgres().await.unwrap() else {
        return;
    };
    approves_twice(&["--database-url", &postgres.url]).await;
}

async fn start(up: &Up, amount: u32) -> String {
    let body = json!({ "input": { "amount": amount } });
    let (status, run) = up.post("/agents/refund/runs", &body).await.unwrap();
    assert_eq!(status, 201, "{run}");
    run["id"].as_str().unwrap().to_owned()
}

async fn until_status(api: &Api, run: &str, status: &str) -> Value {
    until(PATIENCE, &format!("{run} is {status}"), async || {
        let view = api.get(&format!("/runs/{run}")).await;
        (view["status"] == status).then_some(view)
    })
    .await
    .unwrap()
}

/// Two runs use the standing approval, also after a kill. A larger amount, the third use and a revoked one ask.
async fn approves_twice(args: &[&str]) {
    let World {
        mut up,
        nats: _nats,
        ..
    } = World::with_args(args).await;
    let shop = Shop::open().await;
    let tool = json!({ "name": "payments.refund", "risk": "high",
        "http": { "method": "POST", "url": shop.url("/refunds") } });
    assert_eq!(up.post("/tools", &tool).await.unwrap().0, 201);
    let agent = json!({ "agent": "refund", "steps": [
        { "id": "pay", "tool": "payments.refund", "args": { "amount": "$input.amount" } }] });
    assert_eq!(up.post("/agents", &agent).await.unwrap().0, 201);
    let api = Api::at(&up.url, &up.token);

    // The first call asks. Its request shows the version that the terms must name.
    let asking = start(&up, 50).await;
    let waiting = until_status(&api, &asking, "awaiting_approval").await;
    let hold = waiting["waiting_on"][0]["id"].clone();
    // The run shows its request a moment before the list has it.
    let request = until(PATIENCE, "the request is open", async || {
        let page = api.get(&format!("/requests?run={asking}")).await;
        let request = page["items"].get(0)?.clone();
        (request["id"] == hold).then_some(request)
    });
    let request = request.await.unwrap();
    let item = &request["items"][0];
    let terms = json!({ "agent": "refund", "tool": item["tool"], "version": item["version"],
        "args_schema": { "properties": { "amount": { "maximum": 100 } }, "required": ["amount"] },
        "max_uses": 2, "expires_in": "30d", "reason": "small refunds" });
    let (status, made) = up.post(LIST, &terms).await.unwrap();
    assert_eq!(status, 201, "{made}");
    let path = format!("{LIST}/{}", made["id"].as_str().unwrap());
    assert_eq!(
        api.get(&format!("/runs/{asking}")).await["status"],
        "awaiting_approval"
    );

    let first = start(&up, 100).await;
    let ended = until_status(&api, &first, "completed").await;
    let approval = &ended["steps"][0]["approval_state"];
    assert_eq!(
        (&approval["state"], &approval["by"]),
        (&json!("approved"), &json!("owner")),
        "{ended}"
    );
    let large = start(&up, 101).await;
    until_status(&api, &large, "awaiting_approval").await;
    up.kill9().await.unwrap();
    up.restart().await.unwrap();
    let api = Api::at(&up.url, &up.token);
    let second = start(&up, 1).await;
    until_status(&api, &second, "completed").await;
    let third = start(&up, 1).await;
    until_status(&api, &third, "awaiting_approval").await;
    assert_eq!(shop.calls().len(), 2, "one call for each use");

    let shown = api.get(&path).await;
    assert_eq!(
        (&shown["status"], &shown["used"]),
        (&json!("used_up"), &json!(2)),
        "{shown}"
    );
    assert_eq!(shown["uses"].as_array().unwrap().len(), 2, "{shown}");
    revoked_ones_ask(&up, &api, &terms).await;
}

async fn revoked_ones_ask(up: &Up, api: &Api, terms: &Value) {
    let (status, made) = up.post(LIST, terms).await.unwrap();
    assert_eq!(status, 201, "{made}");
    let path = format!("{LIST}/{}", made["id"].as_str().unwrap());
    let (status, body) = api.call(Method::DELETE, &path, &Value::Null).await;
    assert_eq!(status, 204, "{body}");
    assert_eq!(api.get(&path).await["status"], "revoked");
    let run = start(up, 1).await;
    until_status(api, &run, "awaiting_approval").await;
    let (status, body) = up.post(LIST, &json!({ "agent": "refund" })).await.unwrap();
    assert_eq!(status, 422, "{body}");
}
