//! Replicas on Postgres: two executors and two schedulers, one of each stopped for a minute with
//! work in its hands, then continued.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use holdpoint_testkit::until;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::fleet::{Api, Ground};
use crate::shop::Shop;
use crate::world::log;

const RUNS: usize = 200;

/// Longer than every lease of the kernel.
const STOPPED_FOR: Duration = Duration::from_secs(60);

const PATIENCE: Duration = Duration::from_secs(120);

async fn start(api: &Api) -> String {
    let (status, run) = api.post("/agents/story/runs", &json!({})).await;
    assert!(status == 201, "{status} {run}");
    run["id"].as_str().unwrap().to_owned()
}

/// Waits until so many runs are completed; one look sees all.
async fn completed(api: &Api, count: usize) {
    until(
        PATIENCE,
        &format!("{count} runs are completed"),
        async || {
            let failed = api.get("/runs?status=failed").await;
            assert_eq!(failed["items"], json!([]));
            let page = api.get("/runs?status=completed&limit=500").await;
            let done = page["items"].as_array().map_or(0, Vec::len);
            (done == count).then_some(())
        },
    )
    .await
    .unwrap();
}

/// Ground, 7: a replica that was stopped for a minute, and goes on with what it had in memory,
/// changes nothing that the others have done.
#[tokio::test]
async fn a_replica_that_was_stopped_does_no_harm_when_it_goes_on() {
    let Some(ground) = Ground::new().await else {
        return;
    };
    let executors = [
        ground.serve("executor", &[]).await,
        ground.serve("executor", &[]).await,
    ];
    let schedulers = [
        ground.serve("scheduler", &[]).await,
        ground.serve("scheduler", &[]).await,
    ];
    let _handoff = ground.serve("handoff", &[]).await;
    let gateway = ground
        .serve("gateway", &["--http", "127.0.0.1:0", "--owner-token"])
        .await;
    let _worker = ground.worker().await;
    let api = Api::of(&gateway);
    let shop = Shop::slow(Duration::from_millis(200)).await;
    let call = json!({ "method": "POST", "url": shop.url("/orders"), "idempotent": true });
    let steps = json!([{ "tool": "http_request", "args": call }, { "wait": "3s" }, log("after")]);
    let (status, body) = api
        .post("/agents", &json!({ "agent": "story", "steps": steps }))
        .await;
    assert_eq!(status, 201, "{body}");

    let runs = join_all((0..RUNS).map(|_| start(&api))).await;
    until(PATIENCE, "half of the calls are under way", async || {
        (shop.calls().len() >= RUNS / 2).then_some(())
    })
    .await
    .unwrap();
    executors[0].signal(Signal::STOP);
    schedulers[0].signal(Signal::STOP);
    let stopped = tokio::time::Instant::now();
    completed(&api, RUNS).await;
    let before: Vec<Value> = join_all(runs.iter().map(|id| history(&api, id))).await;
    // Only time can make a lease run out.
    tokio::time::sleep_until(stopped + STOPPED_FOR).await;
    executors[0].signal(Signal::CONT);
    schedulers[0].signal(Signal::CONT);
    let later = join_all((0..20).map(|_| start(&api))).await;
    completed(&api, RUNS + later.len()).await;
    let after: Vec<Value> = join_all(runs.iter().map(|id| history(&api, id))).await;
    for ((id, before), after) in runs.iter().zip(before).zip(after) {
        assert_eq!(before, after, "{id}: a final run changes no more");
        check(id, &after);
    }
    // Effects at the tool: under one key a run, and hardly any of them twice: what the stopped executor
    // had in its hands was not given away, for its workers lived.
    let mut effects: BTreeMap<String, usize> = BTreeMap::new();
    for call in shop.calls() {
        *effects
            .entry(call.header("idempotency-key").to_owned())
            .or_default() += 1;
    }
    assert_eq!(effects.len(), RUNS + later.len());
    assert!(effects.values().all(|calls| *calls <= 2), "{effects:?}");
    for process in executors.iter().chain(&schedulers) {
        assert!(!process.log().contains("panicked"), "{}", process.log());
    }
}

async fn history(api: &Api, id: &str) -> Value {
    api.get(&format!("/runs/{id}/events?limit=500")).await["items"].clone()
}

/// Results applied once, waits ended once, numbers without gaps.
fn check(id: &str, items: &Value) {
    let items = items.as_array().unwrap();
    let count = |kind: &str| items.iter().filter(|item| item["type"] == kind).count();
    let counts = (
        count("step.succeeded"),
        count("run.resumed"),
        count("run.completed"),
    );
    assert_eq!(counts, (2, 1, 1), "{id}: {items:?}");
    for (place, item) in items.iter().enumerate() {
        assert_eq!(item["seq"], place + 1, "{id}");
    }
}
