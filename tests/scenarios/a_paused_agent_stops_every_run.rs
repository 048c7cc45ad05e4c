//! One pause stops any number of runs.

use serde_json::{Value, json};

use crate::world::{World, log};

const RUNS: usize = 40;

async fn waiting_runs(world: &World) -> Vec<String> {
    world
        .agent("patient", json!([{ "wait": "5 days" }, log("after")]))
        .await;
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        runs.push(world.start_run("patient", json!({})).await);
    }
    runs
}

async fn post(world: &World, path: &str, body: Value) -> Value {
    let (status, answer) = world.up.post(path, &body).await.unwrap();
    assert_eq!(status, 200, "{answer}");
    answer
}

/// S0-AC4, S0-T6: every waiting run stays `waiting` until a person resumes it, with its remaining time.
#[tokio::test]
async fn a_paused_agent_freezes_the_remaining_time_of_its_waits() {
    let world = World::with_test_clock().await;
    let runs = waiting_runs(&world).await;
    world.advance("2 days").await;
    let paused = post(&world, "/agents/patient/pause", json!({})).await;
    assert_eq!(
        (&paused["status"], &paused["changed"]),
        (&json!("paused"), &json!(true))
    );
    // Views show the pause at once, before the sweep has reached all runs.
    let run = world.run(&runs[RUNS - 1]).await;
    assert_eq!(
        (&run["status"], &run["resume_at"]),
        (&json!("waiting"), &Value::Null)
    );
    assert_eq!(run["paused_by"][0]["scope"], "agent");
    let again = post(&world, "/agents/patient/pause", json!({})).await;
    assert_eq!(
        again["changed"], false,
        "a second pause is a no-op that says so"
    );

    world.advance("30 days").await;
    for id in &runs {
        let run = world.run(id).await;
        assert_eq!(run["status"], "waiting");
        assert_eq!(
            run["message"],
            "Paused by owner; timer hold has 3 days left."
        );
        assert_eq!(run["waiting_on"][0]["remaining_ms"], 3 * 86_400_000);
    }
    let late = world.start_run("patient", json!({})).await;
    let late = world.run(&late).await;
    assert_eq!(
        late["paused_by"][0]["scope"], "agent",
        "accepted, and paused"
    );

    post(&world, "/agents/patient/resume", json!({})).await;
    world.advance("3 days").await;
    for id in &runs {
        assert_eq!(world.run(id).await["status"], "completed", "{id}");
    }
}

/// S0-T6.3: with `waiting: cancel` the runs end, and new runs can be refused.
#[tokio::test]
async fn a_pause_can_cancel_waiting_runs_and_refuse_new_ones() {
    let world = World::with_test_clock().await;
    let runs = waiting_runs(&world).await;
    let body = json!({ "waiting": "cancel", "new": "refuse" });
    post(&world, "/agents/patient/pause", body).await;
    world.settle().await;
    for id in &runs {
        let run = world.run(id).await;
        assert_eq!(run["status"], "cancelled", "{run}");
        assert_eq!(run["failure"]["message"], "Agent paused manually");
    }
    let (status, refused) = world
        .up
        .post("/agents/patient/runs", &json!({}))
        .await
        .unwrap();
    assert_eq!((status, &refused["code"]), (409, &json!("agent_paused")));
}

/// S0-AC4: pauses are a set. A run continues only when the set is empty.
#[tokio::test]
async fn a_run_continues_only_without_any_pause() {
    let world = World::with_test_clock().await;
    let runs = waiting_runs(&world).await;
    let id = &runs[0];
    world.act(id, "pause", json!({})).await;
    post(&world, "/agents/patient/pause", json!({})).await;
    post(&world, "/pause", json!({})).await;
    world.settle().await;
    assert_eq!(
        world.run(id).await["paused_by"].as_array().unwrap().len(),
        3
    );
    world.act(id, "resume", json!({ "mode": "now" })).await;
    post(&world, "/agents/patient/resume", json!({ "mode": "now" })).await;
    world.settle().await;
    assert_eq!(world.run(id).await["status"], "waiting");
    post(&world, "/resume", json!({ "mode": "now" })).await;
    world.settle().await;
    for id in &runs {
        assert_eq!(world.run(id).await["status"], "completed", "{id}");
    }
}
