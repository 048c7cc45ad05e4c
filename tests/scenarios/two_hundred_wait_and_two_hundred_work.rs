//! `kill -9` while many runs wait and work.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use holdpoint_testkit::until;
use serde_json::json;

use crate::shop;
use crate::world::{PATIENCE, World, log};

/// Runs of each kind.
const RUNS: usize = 200;

/// M-2, S2-R6, "Races": each run has at least one effect at the tool, all under the key of the run, and exactly one
/// applied result.
#[tokio::test]
async fn all_runs_end_and_every_result_is_applied_once() {
    let shop = shop::Shop::slow(Duration::from_millis(1_500)).await;
    let mut world = World::with_real_time().await;
    world
        .agent("waits", json!([{ "wait": "6s" }, log("after")]))
        .await;
    let call = json!({ "method": "POST", "url": shop.url("/orders"), "idempotent": true });
    world
        .agent(
            "works",
            json!([{ "tool": "http_request", "args": call }, log("after")]),
        )
        .await;
    let waiting = join_all((0..RUNS).map(|_| world.start_run("waits", json!({})))).await;
    let working = join_all((0..RUNS).map(|_| world.start_run("works", json!({})))).await;
    until(PATIENCE, "most calls are under way", async || {
        (shop.calls().len() >= RUNS / 2).then_some(())
    })
    .await
    .unwrap();
    world.up.kill9().await.unwrap();
    world.up.restart().await.unwrap();

    for id in waiting.iter().chain(&working) {
        world.until_status(id, "completed").await;
    }
    for id in &working {
        let succeeded = world.items(id).await.into_iter();
        let first =
            succeeded.filter(|item| item["type"] == "step.succeeded" && item["step"] == "step-01");
        assert_eq!(first.count(), 1, "{id}: a result is applied once");
    }
    for id in &waiting {
        let resumed = world
            .history(id)
            .await
            .iter()
            .filter(|kind| *kind == "run.resumed")
            .count();
        assert_eq!(resumed, 1, "{id}: a wait ends once");
    }
    let mut effects: BTreeMap<String, usize> = BTreeMap::new();
    for call in shop.calls() {
        *effects
            .entry(call.header("idempotency-key").to_owned())
            .or_default() += 1;
    }
    assert_eq!(effects.len(), RUNS, "one key a run");
    assert!(
        effects.values().all(|count| *count <= 2),
        "only what was in flight is repeated, once"
    );
}

/// "Races": an uncertain step is never started again without a person.
#[tokio::test]
async fn a_killed_step_that_is_not_idempotent_is_uncertain() {
    let shop = shop::Shop::slow(Duration::from_secs(20)).await;
    let mut world = World::with_real_time().await;
    let call = json!({ "method": "POST", "url": shop.url("/orders") });
    world
        .agent("pays", json!([{ "tool": "http_request", "args": call }]))
        .await;
    let id = world.start_run("pays", json!({})).await;
    until(PATIENCE, "the call is under way", async || {
        (!shop.calls().is_empty()).then_some(())
    })
    .await
    .unwrap();
    world.up.kill9().await.unwrap();
    world.up.restart().await.unwrap();
    let run = world.until_status(&id, "awaiting_input").await;
    assert_eq!(run["steps"][0]["status"], "uncertain");
    assert_eq!(shop.calls().len(), 1, "it was not done again");
    let cancelled = world.act(&id, "cancel", json!({})).await;
    assert_eq!(cancelled["status"], "cancelled");
}
