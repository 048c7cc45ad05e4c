//! An operator suspends a run, reads its snapshot, and resumes it (S1).

use holdpoint_testkit::holdpoint_binary;
use serde_json::{Value, json};

use crate::world::{World, at_rest, log, tables_of};

async fn snapshot(world: &World, id: &str) -> Value {
    let path = format!("/runs/{id}/snapshot");
    let (status, snapshot) = world.up.get(&path).await.unwrap();
    assert_eq!(status, 200, "{snapshot}");
    snapshot
}

/// S1-R1, S1-R3, S1-R4, S1-R6, S1-R7, S1-R10: status, snapshot and event are there after a kill right behind the reply.
#[tokio::test]
async fn a_suspension_survives_a_kill() {
    let mut world = World::with_real_time().await;
    let wait = json!({ "id": "later", "wait": "5 days" });
    world
        .agent("waits", json!([log("first"), wait, log("last")]))
        .await;
    let id = world.start_run("waits", json!({})).await;
    world.until_status(&id, "waiting").await;
    assert_eq!(snapshot(&world, &id).await, Value::Null);
    let reason = json!({ "reason": "It wrote to the wrong account." });
    let run = world.act(&id, "suspend", reason.clone()).await;
    assert_eq!(run["changed"], true);
    world.up.kill9().await.unwrap();
    world.up.restart().await.unwrap();

    let run = world.run(&id).await;
    assert_eq!(run["status"], "paused_for_intervention", "{run}");
    assert_eq!(run["pause_reason"], reason["reason"]);
    assert!(run["paused_at"].is_string() && run["waiting_on"][0]["remaining_ms"].is_u64());
    let kept = snapshot(&world, &id).await;
    assert_eq!(kept["suspended_at"], run["paused_at"]);
    assert_eq!(
        (&kept["run"], &kept["complete"]),
        (&json!(id), &json!(true))
    );
    let content = &kept["snapshot_json"];
    assert_eq!(content["current_step"], "later", "{content}");
    assert_eq!(content["tool_calls"][0]["tool"], "log", "{content}");
    assert_eq!(content["tool_calls"][0]["status"], "completed", "{content}");
    let run = world
        .act(&id, "suspend", json!({ "reason": "again" }))
        .await;
    assert_eq!(
        (&run["changed"], &run["pause_reason"]),
        (&json!(false), &reason["reason"])
    );
    let items = world.items(&id).await;
    let suspended: Vec<_> = items
        .iter()
        .filter(|item| item["type"] == "run.suspended")
        .collect();
    assert_eq!(suspended.len(), 1);
    assert_eq!(suspended[0]["data"]["run_id"], id.as_str());
    assert_eq!(suspended[0]["data"]["reason"], reason["reason"]);

    world.act(&id, "resume", json!({ "mode": "now" })).await;
    let run = world.until_status(&id, "completed").await;
    assert_eq!(run["pause_reason"], Value::Null);
    at_rest(&tables_of(&world.up), &world.up.nats_url)
        .await
        .unwrap();
    for (id, status, code) in [
        (id.as_str(), 409, "run_final"),
        ("run_01920000000070008000000000000009", 404, "not_found"),
        ("no-run", 404, "not_found"),
    ] {
        let path = format!("/runs/{id}/suspend");
        let (got, problem) = world.up.post(&path, &reason).await.unwrap();
        assert_eq!((got, &problem["code"]), (status, &json!(code)), "{problem}");
    }
}

/// The command line suspends by filter, shows the suspension and the snapshot, and resumes.
#[tokio::test]
async fn the_command_line_suspends_and_resumes() {
    let world = World::with_real_time().await;
    world.agent("waits", json!([{ "wait": "5 days" }])).await;
    let ids = [
        world.start_run("waits", json!({})).await,
        world.start_run("waits", json!({})).await,
    ];
    for id in &ids {
        world.until_status(id, "waiting").await;
    }
    let holdpoint = async |args: &[&str]| {
        let output = tokio::process::Command::new(holdpoint_binary().unwrap())
            .args(args)
            .arg("--data")
            .arg(world.up.data_dir())
            .env_remove("HOLDPOINT_URL")
            .env_remove("HOLDPOINT_TOKEN")
            .output();
        let output = output.await.unwrap();
        let text = [output.stdout, output.stderr].concat();
        (
            output.status.code(),
            String::from_utf8_lossy(&text).into_owned(),
        )
    };
    let filter = ["run", "suspend", "--agent", "waits", "--reason", "odd"];
    let (code, said) = holdpoint(&filter).await;
    assert_eq!(
        (code, said.matches("  suspended  ").count()),
        (Some(0), 2),
        "{said}"
    );
    let (_, said) = holdpoint(&filter).await;
    assert_eq!(
        said.matches("  was already suspended  ").count(),
        2,
        "{said}"
    );
    let (_, said) = holdpoint(&["run", "show", &ids[0]]).await;
    assert!(
        said.contains("paused_for_intervention") && said.contains("odd"),
        "{said}"
    );
    let (_, said) = holdpoint(&["run", "snapshot", &ids[0]]).await;
    assert!(said.contains("\"current_step\": \"step-01\""), "{said}");
    let (code, said) = holdpoint(&["run", "resume", &ids[0], "--step", "complete_with"]).await;
    assert_eq!(code, Some(2), "{said}");
    let resume = ["run", "resume", &ids[0], "--mode", "now", "--step", "redo"];
    let (code, said) = holdpoint(&resume).await;
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(
        world.until_status(&ids[0], "completed").await["failure"],
        Value::Null
    );
    let status = "paused_for_intervention";
    let (_, said) = holdpoint(&["run", "list", "--status", status]).await;
    assert!(said.contains(&ids[1]) && !said.contains(&ids[0]), "{said}");
}
