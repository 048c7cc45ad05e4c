//! Workspaces share the nodes of a tool fairly.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use holdpoint_testkit::until;
use reqwest::Method;
use serde_json::{Value, json};

use crate::shop::Shop;
use crate::world::{PATIENCE, World};

/// Calls of the busy workspace: runs, and calls of each at the same time.
const RUNS: usize = 40;
const CALLS: usize = 100;

/// Runs of the busy workspace that are awaited. The others are cancelled, because all calls would take half a minute.
const AWAITED: usize = 10;

/// Runs of the other workspace, one after the other. Their median counts, because other tests load the machine.
const FAST: usize = 5;

/// Finding B-6: 4,000 calls of 2 s take the built-in node more than 30 s, and a call of another workspace less than 1 s.
#[tokio::test]
async fn a_fast_call_does_not_wait_for_the_overflow_of_another_workspace() {
    let world = World::with_real_time().await;
    let (slow, fast) = (Shop::slow(Duration::from_secs(2)).await, Shop::open().await);
    let call =
        |shop: &Shop| json!({ "method": "POST", "url": shop.url("/orders"), "idempotent": true });
    let each = json!({
        "for_each": "$input.items", "parallel": CALLS, "tool": "http_request", "args": call(&slow),
    });
    world.agent("busy", json!([each])).await;
    let token = other_workspace(&world).await;
    let post = async |path: &str, body: Value| {
        let path = format!("/v1/workspaces/other{path}");
        let reply = world.up.call_with(&token, Method::POST, &path, Some(&body));
        let (status, body) = reply.await.unwrap();
        assert_eq!(status, 201, "{body}");
        body
    };
    let steps = json!([{ "tool": "http_request", "args": call(&fast) }]);
    post("/agents", json!({ "agent": "quick", "steps": steps })).await;

    let items: Vec<_> = (0..CALLS).collect();
    let started = (0..RUNS).map(|_| {
        let body = json!({ "input": { "items": items } });
        world.start_run("busy", body)
    });
    let busy = join_all(started).await;
    until(PATIENCE, "the node is busy", async || {
        (slow.calls().len() >= 200).then_some(())
    })
    .await
    .unwrap();
    let mut took = Vec::new();
    for _ in 0..FAST {
        let since = Instant::now();
        let run = post("/agents/quick/runs", json!({})).await;
        let path = format!("/v1/workspaces/other/runs/{}", run["id"].as_str().unwrap());
        until(PATIENCE, "the run is completed", async || {
            let reply = world.up.call_with(&token, Method::GET, &path, None).await;
            (reply.unwrap().1["status"] == "completed").then_some(())
        })
        .await
        .unwrap();
        took.push(since.elapsed());
    }
    assert_eq!(fast.calls().len(), FAST);
    let waiting = RUNS * CALLS - slow.calls().len();
    assert!(
        waiting > 2_000,
        "the overflow was there all the time: {waiting}"
    );
    took.sort();
    assert!(took[FAST / 2] < Duration::from_secs(1), "{took:?}");
    let (awaited, others) = busy.split_at(AWAITED);
    for run in others {
        let path = format!("/runs/{run}/cancel");
        let (status, body) = world.up.post(&path, &json!({})).await.unwrap();
        // Some may have ended before.
        assert!(matches!(status, 200 | 409), "{body}");
    }
    for run in awaited {
        world.until_status(run, "completed").await;
    }
    // A call that waits for more than 20 s is dispatched again, and an idempotent one may then run twice.
    let calls = slow.calls();
    let keys = calls.iter().map(|it| it.header("idempotency-key"));
    let is_awaited = |key: &&str| awaited.iter().any(|run| key.starts_with(run.as_str()));
    let keys: BTreeSet<_> = keys.filter(is_awaited).collect();
    assert_eq!(keys.len(), AWAITED * CALLS);
}

async fn other_workspace(world: &World) -> String {
    let body = json!({ "workspace": "other" });
    let reply = world.up.call(Method::POST, "/v1/workspaces", Some(&body));
    let (status, made) = reply.await.unwrap();
    assert_eq!(status, 201, "{made}");
    made["token"].as_str().unwrap().to_owned()
}
