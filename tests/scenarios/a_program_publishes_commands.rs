//! A program in another language publishes commands to JetStream without a library (M-1).

use std::path::Path;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::world::{World, log};

async fn publish(world: &World, agent: &str) -> (bool, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/publish.py");
    let output = Command::new("python3")
        .arg(script)
        .args([agent, r#"{"customer": "c-7"}"#])
        .env("HOLDPOINT_NATS_URL", &world.up.nats_url)
        .env("HOLDPOINT_WORKSPACE", &world.up.workspace)
        .output()
        .await
        .unwrap();
    let said = if output.status.success() {
        output.stdout
    } else {
        output.stderr
    };
    (output.status.success(), String::from_utf8(said).unwrap())
}

/// M-1: subject, headers, JSON, reply and refusal are as in docs/subjects.md.
#[tokio::test]
async fn a_python_program_starts_a_run_and_is_answered() {
    let world = World::with_test_clock().await;
    world
        .agent("published", json!([log("{{ input.customer }}")]))
        .await;
    let (is_done, said) = publish(&world, "published").await;
    assert!(is_done, "{said}");
    let run: Value = serde_json::from_str(&said).unwrap();
    let id = run["id"].as_str().unwrap();
    world.until_status(id, "completed").await;
    let started = &world.items(id).await[0];
    assert_eq!(started["data"]["by"], "unsigned:publish.py", "{started}");
    let (is_done, said) = publish(&world, "nobody").await;
    assert!(!is_done && said.contains("not_found"), "{said}");
}

/// M-1: a command is stored while its service is down, and handled when it is back.
#[tokio::test]
async fn a_command_waits_for_its_owner() {
    let mut world = World::with_real_time().await;
    world.agent("published", json!([log("hello")])).await;
    world.up.kill9().await.unwrap();
    let (is_done, said) = publish(&world, "published").await;
    assert!(
        !is_done && said.contains("stored without a reply"),
        "{said}"
    );
    world.up.restart().await.unwrap();
    let runs = holdpoint_testkit::until(crate::world::PATIENCE, "the run is there", async || {
        let (_, page) = world.up.get("/runs?status=completed").await.unwrap();
        let runs = page["items"].as_array().unwrap().len();
        (runs > 0).then_some(runs)
    })
    .await
    .unwrap();
    assert_eq!(runs, 1, "sent five times under one id, started once");
}
