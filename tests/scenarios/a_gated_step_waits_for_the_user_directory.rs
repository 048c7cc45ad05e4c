//! Gate 2: while the user directory is unavailable, no gated step starts. Every doubt means no.

use holdpoint_testkit::until;
use serde_json::{Value, json};

use crate::fleet::{Api, Ground};
use crate::shop::Shop;
use crate::world::PATIENCE;

/// The handoff service stops after an approval, and a new executor has never heard of it. The approved call waits in its
/// queue, and any other call is made. It is made when the service is back.
#[tokio::test]
async fn an_approved_call_waits_for_the_handoff_service() {
    let ground = Ground::on_sqlite().await;
    let _scheduler = ground.serve("scheduler", &[]).await;
    let handoff = ground.serve("handoff", &[]).await;
    let executor = ground.serve("executor", &[]).await;
    let gateway = ground
        .serve("gateway", &["--http", "127.0.0.1:0", "--owner-token"])
        .await;
    let api = Api::of(&gateway);
    let shop = Shop::open().await;
    prepare(&api, &shop).await;
    let gated = start(&api, "gated").await;
    reaches(&api, &gated, "waiting_confirm").await;
    let approval = json!({ "approved_steps": ["pay"] });
    let (status, body) = api.post(&format!("{gated}/approve"), &approval).await;
    assert_eq!(status, 200, "{body}");
    reaches(&api, &gated, "queued").await;

    handoff.terminate().await;
    executor.terminate().await;
    let executor = ground.serve("executor", &[]).await;
    let worker = ground.worker().await;
    // Its call comes after the approved one in the queue of the node.
    let plain = start(&api, "plain").await;
    reaches(&api, &plain, "completed").await;
    assert_eq!(shop.calls().len(), 1, "only the call without a gate");
    let run = api.get(&gated).await;
    assert_eq!(run["steps"][0]["status"], "queued", "{run}");
    assert_eq!(run["steps"][0]["failed_attempts"], Value::Null, "{run}");

    let handoff = ground.serve("handoff", &[]).await;
    reaches(&api, &gated, "completed").await;
    assert_eq!(shop.calls().len(), 2);
    let requests = api.get("/requests").await;
    assert_eq!(requests["items"].as_array().unwrap().len(), 1, "asked once");
    for service in [worker, executor, handoff, gateway] {
        service.terminate().await;
    }
}

async fn prepare(api: &Api, shop: &Shop) {
    let tool = json!({ "name": "shop.pay", "risk": "medium",
        "http": { "method": "POST", "url": shop.url("/refunds") } });
    let pay = json!({ "id": "pay", "tool": "shop.pay", "args": { "amount": 7 } });
    let mut gated = pay.clone();
    gated["approval"] = json!({ "from": "@role.owner" });
    let plain = json!({ "agent": "plain", "steps": [pay] });
    let gated = json!({ "agent": "gated", "steps": [gated] });
    for (path, body) in [("/tools", tool), ("/agents", plain), ("/agents", gated)] {
        let (status, body) = api.post(path, &body).await;
        assert_eq!(status, 201, "{body}");
    }
}

/// The path of a new run.
async fn start(api: &Api, agent: &str) -> String {
    let path = format!("/agents/{agent}/runs");
    let (status, run) = api.post(&path, &json!({})).await;
    assert_eq!(status, 201, "{run}");
    format!("/runs/{}", run["id"].as_str().unwrap())
}

/// Waits until the only step of a run has this status.
async fn reaches(api: &Api, run: &str, status: &str) {
    until(PATIENCE, &format!("{run} to be {status}"), async || {
        let run = api.get(run).await;
        (run["steps"][0]["status"] == status).then_some(())
    })
    .await
    .unwrap();
}
