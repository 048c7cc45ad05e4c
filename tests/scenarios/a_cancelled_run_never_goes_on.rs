//! A cancelled run never continues.

use serde_json::json;

use crate::world::{World, log};

/// S2-R13
#[tokio::test]
async fn a_cancelled_wait_never_ends() {
    let world = World::with_test_clock().await;
    world
        .agent("patient", json!([{ "wait": "5 days" }, log("after")]))
        .await;
    let id = world.start_run("patient", json!({})).await;
    world.settle().await;
    let cancelled = world
        .act(&id, "cancel", json!({ "reason": "not needed any more" }))
        .await;
    assert_eq!(cancelled["status"], "cancelled");
    assert_eq!(cancelled["failure"]["class"], "cancelled");
    assert_eq!(
        cancelled["failure"]["message"],
        "Cancelled by owner: not needed any more"
    );

    world.advance("10 days").await;
    let run = world.run(&id).await;
    assert_eq!(run["status"], "cancelled");
    assert_eq!(run["steps"][1]["status"], "cancelled");
    assert!(!world.history(&id).await.contains(&"step.called".to_owned()));

    let again = world.act(&id, "cancel", json!({})).await;
    assert_eq!(again["changed"], false);
    let (status, problem) = world
        .up
        .post(&format!("/runs/{id}/pause"), &json!({}))
        .await
        .unwrap();
    assert_eq!((status, &problem["code"]), (409, &json!("run_final")));
}

/// S2-R13: a paused run can be cancelled, too.
#[tokio::test]
async fn a_paused_run_can_be_cancelled() {
    let world = World::with_test_clock().await;
    world.agent("patient", json!([{ "wait": "5 days" }])).await;
    let id = world.start_run("patient", json!({})).await;
    world.act(&id, "pause", json!({})).await;
    let cancelled = world.act(&id, "cancel", json!({})).await;
    assert_eq!(cancelled["status"], "cancelled");
}
