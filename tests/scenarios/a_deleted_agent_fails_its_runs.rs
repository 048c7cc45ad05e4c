//! Runs of a deleted agent fail.

use serde_json::json;

use crate::world::{World, log};

/// S0-AC9: literal texts; the name is free again.
#[tokio::test]
async fn waiting_runs_fail_and_the_name_is_free_again() {
    let world = World::with_test_clock().await;
    let steps = || json!([{ "wait": "5 days" }, log("after")]);
    world.agent("gone", steps()).await;
    let mut runs = Vec::new();
    for _ in 0..30 {
        runs.push(world.start_run("gone", json!({})).await);
    }
    let (status, deleted) = world.up.delete("/agents/gone").await.unwrap();
    assert_eq!((status, &deleted["status"]), (200, &json!("deleted")));
    // The view shows it from that commit on, also before the sweep has reached the run.
    let run = world.run(&runs[29]).await;
    assert_eq!(run["status"], "failed", "{run}");
    let (status, _) = world
        .up
        .post("/agents/gone/runs", &json!({}))
        .await
        .unwrap();
    assert_eq!(status, 404);
    let (status, _) = world.up.get("/agents/gone").await.unwrap();
    assert_eq!(status, 404);
    world.advance("6 days").await;
    for id in &runs {
        let run = world.run(id).await;
        assert_eq!(run["status"], "failed");
        assert_eq!(
            run["failure"]["message"],
            "Agent deleted during wait period"
        );
        assert_eq!(run["failure"]["class"], "policy");
        let kinds = world.history(id).await;
        assert!(!kinds.contains(&"run.resumed".to_owned()), "{kinds:?}");
        assert_eq!(kinds.last().unwrap(), "run.failed");
    }
    world.agent("gone", steps()).await;
    let id = world.start_run("gone", json!({})).await;
    world.advance("5 days").await;
    assert_eq!(world.run(&id).await["status"], "completed");
}
