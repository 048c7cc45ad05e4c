//! A waiting run is paused.

use serde_json::{Value, json};

use crate::world::{World, log};

async fn waiting_two_days_of_five(world: &World) -> String {
    world
        .agent("patient", json!([{ "wait": "5 days" }, log("after")]))
        .await;
    let id = world.start_run("patient", json!({})).await;
    world.advance("2 days").await;
    id
}

async fn paused_for_ten_days(world: &World) -> String {
    let id = waiting_two_days_of_five(world).await;
    world.act(&id, "pause", json!({})).await;
    world.advance("10 days").await;
    id
}

/// S0-AC4
#[tokio::test]
async fn a_pause_cancels_the_resume_and_keeps_the_remaining_time() {
    let world = World::with_test_clock().await;
    let id = waiting_two_days_of_five(&world).await;
    let paused = world.act(&id, "pause", json!({})).await;
    assert_eq!(paused["changed"], true);
    assert_eq!(paused["status"], "waiting");
    assert_eq!(paused["resume_at"], Value::Null);
    assert_eq!(
        paused["message"],
        "Paused by owner; timer hold has 3 days left."
    );
    assert_eq!(paused["paused_by"][0]["scope"], "run");
    assert_eq!(
        paused["waiting_on"][0]["remaining_ms"],
        3 * 24 * 3600 * 1000
    );

    world.advance("30 days").await;
    assert_eq!(
        world.run(&id).await["status"],
        "waiting",
        "a paused wait does not end"
    );
    let again = world.act(&id, "pause", json!({})).await;
    assert_eq!(again["changed"], false, "a second pause changes nothing");

    world.act(&id, "resume", json!({})).await;
    world.advance("2d 23h").await;
    assert_eq!(world.run(&id).await["status"], "waiting");
    world.advance("1h").await;
    assert_eq!(world.run(&id).await["status"], "completed");
    let again = world
        .up
        .post(&format!("/runs/{id}/resume"), &json!({}))
        .await
        .unwrap();
    assert_eq!((again.0, &again.1["code"]), (409, &json!("run_final")));
}

/// S0-AC4: `now`, and `keep_deadline` after the deadline, continue at once.
#[tokio::test]
async fn now_and_a_passed_deadline_continue_at_once() {
    for mode in ["keep_deadline", "now"] {
        let world = World::with_test_clock().await;
        let id = paused_for_ten_days(&world).await;
        world.act(&id, "resume", json!({ "mode": mode })).await;
        world.settle().await;
        assert_eq!(world.run(&id).await["status"], "completed", "{mode}");
    }
}

/// S0-AC4: `restart` waits the whole time again.
#[tokio::test]
async fn restart_waits_the_whole_time_again() {
    let world = World::with_test_clock().await;
    let id = paused_for_ten_days(&world).await;
    let resumed = world.act(&id, "resume", json!({ "mode": "restart" })).await;
    assert_eq!(resumed["message"], "Agent paused. Will resume in 5 days.");
    world.advance("4d 23h").await;
    assert_eq!(world.run(&id).await["status"], "waiting");
    world.advance("1h").await;
    assert_eq!(world.run(&id).await["status"], "completed");
}
