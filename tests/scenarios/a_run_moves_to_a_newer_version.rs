//! `POST /runs/{run}/migrate`: an agent is edited while runs wait, and those runs move whose new plan agrees with what
//! has happened. Also the statistics of an agent.

use holdpoint_testkit::until;
use serde_json::{Value, json};

use crate::world::{PATIENCE, World, log};

async fn apply(world: &World, rest: &str, last: &str) {
    let steps = json!([{ "id": "rest", "wait": rest }, log(last)]);
    let agent = json!({ "agent": "patient", "steps": steps });
    let (status, body) = world.up.post("/agents", &agent).await.unwrap();
    assert_eq!((status, &body["changed"]), (201, &json!(true)), "{body}");
}

async fn message_of(world: &World, run: &str) -> Value {
    world.run(run).await["steps"][1]["request"]["message"].clone()
}

#[tokio::test]
async fn a_waiting_run_keeps_its_version_until_it_is_moved() {
    migrate_a_waiting_run(&World::with_test_clock().await).await;
}

/// The same on any system, such as one on Postgres.
pub(crate) async fn migrate_a_waiting_run(world: &World) {
    apply(world, "5 days", "first").await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(world.start_run("patient", json!({})).await);
    }
    apply(world, "5 days", "second").await;
    let (kept, moved) = (&runs[0], &runs[1]);
    assert_eq!(world.run(kept).await["version"], 1);
    let view = world.act(moved, "migrate", json!({})).await;
    assert_eq!(
        (&view["changed"], &view["version"]),
        (&json!(true), &json!(2))
    );
    let again = world.act(moved, "migrate", json!({ "version": 2 })).await;
    assert_eq!(again["changed"], false);
    world.advance("5 days").await;
    for (run, message) in [(kept, "first"), (moved, "second")] {
        world.until_status(run, "completed").await;
        assert_eq!(message_of(world, run).await, message);
    }
    assert!(
        world
            .history(moved)
            .await
            .contains(&"run.migrated".to_owned())
    );
    let (status, ended) = world
        .up
        .post(&format!("/runs/{kept}/migrate"), &json!({}))
        .await
        .unwrap();
    assert_eq!((status, &ended["code"]), (409, &json!("run_final")));

    let path = "/agents/patient/stats";
    let (status, stats) = world.up.get(path).await.unwrap();
    assert_eq!(status, 200, "{stats}");
    assert_eq!(
        (&stats["runs"], &stats["statuses"]),
        (&json!(3), &json!({ "completed": 3 }))
    );
    assert_eq!(
        (&stats["success_rate"], &stats["limit_reached"]),
        (&json!(1.0), &json!(false))
    );
    assert!(stats["median"]["active_ms"].is_u64(), "{stats}");
    let (_, none) = world
        .up
        .get(&format!("{path}?since=2999-01-01T00:00:00Z"))
        .await
        .unwrap();
    assert_eq!(
        (&none["runs"], &none["success_rate"]),
        (&json!(0), &Value::Null)
    );
    assert_eq!(
        world.up.get(&format!("{path}?since=x")).await.unwrap().0,
        400
    );
    assert_eq!(world.up.get("/agents/absent/stats").await.unwrap().0, 404);
}

/// The wait has begun, so a plan with another wait does not agree. An operation moves all runs that it can.
#[tokio::test]
async fn a_plan_that_differs_is_refused_and_names_the_step() {
    let world = World::with_test_clock().await;
    apply(&world, "5 days", "x").await;
    let run = world.start_run("patient", json!({})).await;
    apply(&world, "6 days", "x").await;
    let later = world.start_run("patient", json!({})).await;
    let path = format!("/runs/{run}/migrate");
    let (status, problem) = world.up.post(&path, &json!({})).await.unwrap();
    assert_eq!(
        (status, &problem["code"]),
        (409, &json!("plan_differs")),
        "{problem}"
    );
    assert!(
        problem["detail"].as_str().unwrap().contains("rest"),
        "{problem}"
    );
    assert_eq!(
        world
            .up
            .post(&path, &json!({ "version": 9 }))
            .await
            .unwrap()
            .0,
        422
    );
    assert_eq!(world.run(&run).await["version"], 1);

    apply(&world, "6 days", "y").await;
    let body = json!({ "action": "migrate", "filter": { "agent": "patient" } });
    let (status, begun) = world.up.post("/runs:bulk", &body).await.unwrap();
    assert_eq!(status, 202, "{begun}");
    world.settle().await;
    let path = format!("/operations/{}", begun["id"].as_str().unwrap());
    let (_, ended) = world.up.get(&path).await.unwrap();
    let counts = json!({ "changed": 1, "unchanged": 0, "refused": 1 });
    assert_eq!(
        (&ended["state"], &ended["counts"]),
        (&json!("completed"), &counts)
    );
    assert_eq!(world.run(&later).await["version"], 3);
}

/// Gate (Must): an agent is edited while 1,000 runs wait. They keep their version.
#[tokio::test]
async fn a_thousand_waiting_runs_keep_their_version() {
    const RUNS: u64 = 1_000;
    let world = World::with_test_clock().await;
    apply(&world, "5 days", "first").await;
    let url = format!(
        "{}/v1/workspaces/default/agents/patient/runs:batch",
        world.up.url
    );
    let started = reqwest::Client::new()
        .post(url)
        .bearer_auth(&world.up.token);
    let started = started.body("{}\n".repeat(1_000)).send().await.unwrap();
    let started: Value = started.json().await.unwrap();
    let items = started["items"].as_array().unwrap();
    let runs: Vec<&str> = items
        .iter()
        .map(|it| it["run"]["id"].as_str().unwrap())
        .collect();
    assert_eq!(runs.len() as u64, RUNS);
    apply(&world, "5 days", "second").await;
    let new = world.start_run("patient", json!({})).await;
    for run in runs.iter().step_by(100) {
        assert_eq!(world.run(run).await["version"], 1);
    }
    world.advance("5 days").await;
    world.until_status(&new, "completed").await;
    let all = until(PATIENCE, "all runs are completed", async || {
        let (_, stats) = world.up.get("/agents/patient/stats").await.unwrap();
        (stats["statuses"]["completed"] == RUNS + 1).then_some(())
    });
    all.await.unwrap();
    assert_eq!(message_of(&world, &new).await, "second");
    for run in runs.iter().step_by(10) {
        assert_eq!(message_of(&world, run).await, "first");
    }
}
