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

/// What people and programs are told of, and by which rules, is said in a terminal, too.
#[tokio::test]
async fn preferences_webhooks_and_policies_are_kept() {
    let world = World::with_test_clock().await;
    let set = [
        "preferences",
        "set",
        "--order",
        "chat,email",
        "--chat-url",
        "http://127.0.0.1:9/services/hidden",
        "--email-from",
        "high",
        "--quiet-hours",
        "22:00-07:00",
        "--time-zone",
        "Europe/Berlin",
    ];
    let said = printed(&holdpoint(&world, &set).await);
    assert!(said.contains("(shown this once)"), "{said}");
    printed(&holdpoint(&world, &["preferences", "set", "--chat-from", "normal"]).await);
    let shown = printed(&holdpoint(&world, &["preferences", "show"]).await);
    for words in [
        "order        chat, then email",
        "email        from high",
        "chat         from normal, slack (http://127.0.0.1:9/…)",
        "time zone    Europe/Berlin",
        "quiet hours  22:00 to 07:00",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let wrong = ["preferences", "set", "--time-zone", "Berlin"];
    let refused = holdpoint(&world, &wrong).await;
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");

    let add = [
        "webhooks",
        "add",
        "http://127.0.0.1:9/",
        "--event",
        "approval.*",
        "--json",
    ];
    let added: Value = serde_json::from_str(&printed(&holdpoint(&world, &add).await)).unwrap();
    let id = added["id"].as_str().unwrap();
    let disabled = printed(&holdpoint(&world, &["webhooks", "disable", id]).await);
    assert!(disabled.contains("disabled"), "{disabled}");
    printed(&holdpoint(&world, &["webhooks", "enable", id]).await);
    let listed = printed(&holdpoint(&world, &["webhooks", "list"]).await);
    assert!(
        listed.contains("active") && listed.contains("approval.*"),
        "{listed}"
    );
    printed(&holdpoint(&world, &["webhooks", "deliveries", id]).await);
    printed(&holdpoint(&world, &["webhooks", "remove", id]).await);
    let gone = holdpoint(&world, &["webhooks", "enable", id]).await;
    assert_eq!(gone.status.code(), Some(3), "{gone:?}");

    let policy = r#"{"name": "two-of-ops", "kind": "approval", "from": ["@role.ops"], "need": 2}"#;
    printed(&holdpoint(&world, &["policies", "put", policy]).await);
    let listed = printed(&holdpoint(&world, &["policies", "list"]).await);
    assert!(
        listed.contains("two-of-ops") && listed.contains("built in"),
        "{listed}"
    );
    let shown = printed(&holdpoint(&world, &["policies", "show", "two-of-ops"]).await);
    assert!(shown.contains("\"need\": 2"), "{shown}");
    printed(&holdpoint(&world, &["policies", "remove", "two-of-ops"]).await);
    let gone = holdpoint(&world, &["policies", "show", "two-of-ops"]).await;
    assert_eq!(gone.status.code(), Some(3), "{gone:?}");
}
