//! A killed process loses no wait.

use std::time::Duration;

use serde_json::json;

use crate::world::{World, log};

/// M-2, S0-AC2: the timer becomes due while no process runs.
#[tokio::test]
async fn a_wait_that_became_due_while_down_ends_at_the_start() {
    let mut world = World::with_real_time().await;
    world
        .agent("short", json!([{ "wait": "3s" }, log("after")]))
        .await;
    let id = world.start_run("short", json!({})).await;
    world.until_status(&id, "waiting").await;
    world.up.kill9().await.unwrap();
    // No process runs, so the test can wait for no condition. The passing time is the subject of the test.
    tokio::time::sleep(Duration::from_secs(3)).await;
    world.up.restart().await.unwrap();
    world.until_status(&id, "completed").await;
    let resumed = world
        .history(&id)
        .await
        .iter()
        .filter(|kind| *kind == "run.resumed")
        .count();
    assert_eq!(resumed, 1);
}

/// S0-AC1, M-2: the same on virtual time, which survives the kill.
#[tokio::test]
async fn a_long_wait_goes_on_after_a_kill() {
    let mut world = World::with_test_clock().await;
    world
        .agent("patient", json!([{ "wait": "90 days" }, log("after")]))
        .await;
    let id = world.start_run("patient", json!({})).await;
    world.advance("45 days").await;
    let before = world.run(&id).await;
    world.up.kill9().await.unwrap();
    world.up.restart().await.unwrap();
    let after = world.run(&id).await;
    assert_eq!(before["resume_at"], after["resume_at"]);
    world.advance("44 days").await;
    assert_eq!(world.run(&id).await["status"], "waiting");
    world.advance("1 day").await;
    assert_eq!(world.run(&id).await["status"], "completed");
}
