//! Limits of an agent with two executors on Postgres: no place has two runs, and no contact has two.

use std::time::Duration;

use futures_util::future::join_all;
use holdpoint_testkit::until;
use serde_json::{Value, json};

use crate::fleet::{Api, Ground};
use crate::shop::Shop;

const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test]
async fn places_and_starts_are_shared_by_replicas() {
    let Some(ground) = Ground::new().await else {
        return;
    };
    let executors = [
        ground.serve("executor", &[]).await,
        ground.serve("executor", &[]).await,
    ];
    let _scheduler = ground.serve("scheduler", &[]).await;
    let _handoff = ground.serve("handoff", &[]).await;
    let gateway = ground
        .serve("gateway", &["--http", "127.0.0.1:0", "--owner-token"])
        .await;
    let _worker = ground.worker().await;
    let api = Api::of(&gateway);
    let shop = Shop::slow(Duration::from_millis(50)).await;
    let call = json!({ "method": "POST", "url": shop.url("/orders"), "idempotent": true });
    let agent = json!({
        "agent": "serial", "limits": { "concurrency": { "runs": 3 } },
        "steps": [{ "tool": "http_request", "args": call }],
    });
    let (status, body) = api.post("/agents", &agent).await;
    assert_eq!(status, 201, "{body}");
    let agent = json!({
        "agent": "greets", "limits": { "once": { "key": "$input.order" } },
        "steps": [{ "tool": "log", "args": { "message": "hello" } }],
    });
    let (status, body) = api.post("/agents", &agent).await;
    assert_eq!(status, 201, "{body}");

    check_starts(&api).await;
    let started = join_all((0..40).map(|_| async {
        let (status, run) = api.post("/agents/serial/runs", &json!({})).await;
        assert_eq!(status, 201, "{run}");
        run["id"].as_str().unwrap().to_owned()
    }))
    .await;
    until(PATIENCE, "all runs are completed", async || {
        let page = api
            .get("/runs?agent=serial&status=completed&limit=500")
            .await;
        let done = page["items"].as_array().map_or(0, Vec::len);
        (done == started.len()).then_some(())
    })
    .await
    .unwrap();
    check_places(&api, &shop, &started).await;
    for executor in &executors {
        let log = executor.log();
        assert!(
            !log.contains("panicked") && !log.contains("dead letter"),
            "{log}"
        );
    }
    assert_eq!(api.get("/dead").await["items"], Value::Array(Vec::new()));
}

/// Sixty starts for four orders make four runs.
async fn check_starts(api: &Api) {
    let greeting = async |number: usize| {
        let body = json!({ "input": { "order": number % 4 } });
        let (status, run) = api.post("/agents/greets/runs", &body).await;
        assert!(status == 201 || status == 200, "{status} {run}");
        (number % 4, status, run["id"].as_str().unwrap().to_owned())
    };
    let started = join_all((0..60).map(greeting)).await;
    let created = started.iter().filter(|(_, status, _)| *status == 201);
    assert_eq!(created.count(), 4);
    let mut runs: Vec<_> = started.iter().map(|(order, _, id)| (order, id)).collect();
    runs.sort();
    runs.dedup();
    assert_eq!(runs.len(), 4, "one run for each order");
}

/// Each run was called once, and never more than three at the same time. The shop counts them: the history has the
/// time at which a batch began, and the batches of two replicas overlap.
async fn check_places(api: &Api, shop: &Shop, runs: &[String]) {
    for id in runs {
        let items = api.get(&format!("/runs/{id}/events?limit=500")).await["items"].clone();
        let called = items.as_array().unwrap().iter();
        let called = called.filter(|item| item["type"] == "step.called").count();
        assert_eq!(called, 1, "{items}");
    }
    assert_eq!(shop.calls().len(), runs.len());
    assert_eq!(shop.most_in_progress(), 3);
}
