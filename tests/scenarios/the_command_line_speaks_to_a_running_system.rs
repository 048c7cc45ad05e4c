//! Two terminals: `up --test-clock` in one, the other commands in the other.

use std::process::Output;

use holdpoint_testkit::holdpoint_binary;
use serde_json::{Value, json};

use crate::world::{World, log};

async fn holdpoint(world: &World, args: &[&str]) -> Output {
    tokio::process::Command::new(holdpoint_binary().unwrap())
        .args(args)
        .arg("--data")
        .arg(world.up.data_dir())
        .env_remove("HOLDPOINT_URL")
        .env_remove("HOLDPOINT_TOKEN")
        .output()
        .await
        .unwrap()
}

fn printed(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn start_show_pause_resume_advance_watch() {
    let world = World::with_test_clock().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.json");
    let agent = json!({ "agent": "patient", "steps": [{ "wait": "5 days" }, log("after")] });
    std::fs::write(&file, agent.to_string()).unwrap();
    printed(&holdpoint(&world, &["agent", "apply", file.to_str().unwrap()]).await);

    let started = printed(&holdpoint(&world, &["run", "start", "patient", "--json"]).await);
    let started: Value = serde_json::from_str(&started).unwrap();
    let id = started["id"].as_str().unwrap();
    printed(&holdpoint(&world, &["clock", "advance", "2d"]).await);
    printed(&holdpoint(&world, &["run", "pause", id]).await);
    let shown = printed(&holdpoint(&world, &["run", "show", id]).await);
    assert!(
        shown.contains("Paused by owner; timer hold has 3 days left."),
        "{shown}"
    );
    printed(&holdpoint(&world, &["run", "resume", id]).await);
    printed(&holdpoint(&world, &["clock", "advance", "3d"]).await);
    let watched = printed(&holdpoint(&world, &["run", "watch", id]).await);
    assert!(watched.contains("run.completed"), "{watched}");
    let listed = printed(&holdpoint(&world, &["run", "list", "--status", "completed"]).await);
    assert!(listed.contains(id), "{listed}");

    let absent = ["run", "show", "run_00000000000000000000000000000000"];
    assert_eq!(holdpoint(&world, &absent).await.status.code(), Some(3));
    assert_eq!(
        holdpoint(&world, &["run", "cancel", id])
            .await
            .status
            .code(),
        Some(6)
    );
    assert_eq!(
        holdpoint(&world, &["run", "colour"]).await.status.code(),
        Some(2)
    );
}

#[tokio::test]
async fn an_unreachable_system_is_said_to_be_so() {
    let nowhere = tempfile::tempdir().unwrap();
    let output = tokio::process::Command::new(holdpoint_binary().unwrap())
        .args([
            "run",
            "list",
            "--url",
            "http://127.0.0.1:9",
            "--token",
            "t",
            "--data",
        ])
        .arg(nowhere.path())
        .output()
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(7));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("holdpoint up"), "{said}");
}
