//! A person approves a call with literal arguments before its step is reached (S2-R4, issue Gate, part 2).

use holdpoint_testkit::{Up, postgres, until};
use serde_json::{Value, json};

use crate::fleet::Api;
use crate::shop::Shop;
use crate::world::{PATIENCE, World};

#[tokio::test]
async fn a_literal_call_is_approved_early() {
    approves_early(&[]).await;
}

/// The same on Postgres.
#[tokio::test]
async fn a_literal_call_is_approved_early_on_postgres() {
    let Some(postgres) = postgres().await.unwrap() else {
        return;
    };
    approves_early(&["--database-url", &postgres.url]).await;
}

async fn register(up: &Up, shop: &Shop, version: &str) {
    let tool = json!({ "name": "payments.refund", "version": version, "risk": "high", "idempotent": true,
        "http": { "method": "POST", "url": shop.url("/refunds") } });
    let (status, body) = up.post("/tools", &tool).await.unwrap();
    assert_eq!(status, 201, "{body}");
}

async fn start(up: &Up) -> String {
    let body = json!({ "input": { "order": "o-2" } });
    let (status, run) = up.post("/agents/refund/runs", &body).await.unwrap();
    assert_eq!(status, 201, "{run}");
    run["id"].as_str().unwrap().to_owned()
}

async fn send_signal(api: &Api, run: &str) {
    let (status, body) = api
        .post(&format!("/runs/{run}/signal"), &json!({ "name": "go" }))
        .await;
    assert_eq!(status, 200, "{body}");
}

/// The steps of the run when it asks about this step.
async fn until_asked(api: &Api, run: &str, step: &str) -> Value {
    until(PATIENCE, &format!("{step} asks"), async || {
        let view = api.get(&format!("/runs/{run}")).await;
        let waits =
            view["waiting_on"][0]["kind"] == "approval" && view["waiting_on"][0]["step"] == step;
        waits.then(|| view["steps"].clone())
    })
    .await
    .unwrap()
}

/// The early approval survives a kill. It covers neither arguments with an expression nor another version of the tool.
async fn approves_early(args: &[&str]) {
    let World {
        mut up,
        nats: _nats,
        ..
    } = World::with_args(args).await;
    let shop = Shop::open().await;
    register(&up, &shop, "1").await;
    let pay = |id: &str, order: &str| json!({ "id": id, "tool": "payments.refund", "args": { "order": order, "amount": 250 } });
    let agent = json!({ "agent": "refund", "steps": [
        { "id": "ready", "wait_for": "go" }, pay("first", "o-1"), pay("second", "$input.order") ] });
    assert_eq!(up.post("/agents", &agent).await.unwrap().0, 201);
    let api = Api::at(&up.url, &up.token);
    let (early, late) = (start(&up).await, start(&up).await);
    for run in [&early, &late] {
        approves_the_literal_call(&api, run).await;
    }
    up.kill9().await.unwrap();
    up.restart().await.unwrap();
    let api = Api::at(&up.url, &up.token);
    send_signal(&api, &early).await;
    let steps = until_asked(&api, &early, "second").await;
    let first = &steps[1];
    assert_eq!(
        (&first["status"], &first["approval_state"]["by"]),
        (&json!("completed"), &json!("owner")),
        "{steps}"
    );
    assert_eq!(shop.calls().len(), 1);

    register(&up, &shop, "2").await;
    send_signal(&api, &late).await;
    let steps = until_asked(&api, &late, "first").await;
    assert_eq!(
        steps[1]["status"], "waiting_confirm",
        "another version is another call: {steps}"
    );
    assert_eq!(
        (&steps[0]["risk"], &steps[1]["risk"]),
        (&Value::Null, &json!("high"))
    );
    assert_eq!(shop.calls().len(), 1);
}

async fn approves_the_literal_call(api: &Api, run: &str) {
    let view = api.get(&format!("/runs/{run}")).await;
    let call = &view["steps"][1]["early_call"];
    assert_eq!(
        call["args"],
        json!({ "order": "o-1", "amount": 250 }),
        "{view}"
    );
    assert_eq!(view["steps"][2]["early_call"], Value::Null, "{view}");
    let path = format!("/runs/{run}/approve");
    for (body, code) in [
        (
            json!({ "approved_steps": ["second"] }),
            "not_reviewable_yet",
        ),
        (
            json!({ "rejected_steps": ["first"], "comment": "no" }),
            "not_reviewable_yet",
        ),
        (
            json!({ "approved_steps": ["first"], "digests": { "first": "00ff" } }),
            "digest_mismatch",
        ),
    ] {
        let (status, refused) = api.post(&path, &body).await;
        assert_eq!((status, &refused["code"]), (409, &json!(code)), "{refused}");
    }
    let body = json!({ "approved_steps": ["first"], "digests": { "first": call["digest"] } });
    // It outlasts the token.
    let token = json!({ "user": "owner", "role": "member" });
    let (status, made) = api.post("/tokens", &token).await;
    assert_eq!(status, 201, "{made}");
    let narrowed = api.with_token(made["token"].as_str().unwrap());
    let refused = narrowed.post(&path, &body).await.1;
    assert_eq!(
        refused["items"][0]["problem"]["code"], "narrowed_token",
        "{refused}"
    );
    let (status, decided) = api.post(&path, &body).await;
    assert_eq!(status, 200, "{decided}");
    let item = &decided["items"][0];
    assert_eq!(
        (&item["recorded"], &item["effect"]),
        (&json!(true), &json!("pending")),
        "{decided}"
    );
    assert!(item["standing_approval"].is_string(), "{decided}");
}
