//! An operator suspends a run, reads its snapshot, and resumes it (S1).

use holdpoint_testkit::holdpoint_binary;
use serde_json::{Value, json};

use crate::toolbox::Toolbox;
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
    suspend_over_a_kill(&mut World::with_real_time().await).await;
}

/// The same on any system, such as one on Postgres.
pub(crate) async fn suspend_over_a_kill(world: &mut World) {
    let wait = json!({ "id": "later", "wait": "5 days" });
    world
        .agent("waits", json!([log("first"), wait, log("last")]))
        .await;
    let id = world.start_run("waits", json!({})).await;
    world.until_status(&id, "waiting").await;
    assert_eq!(snapshot(world, &id).await, Value::Null);
    let reason = json!({ "reason": "It wrote to the wrong account." });
    let run = world.act(&id, "suspend", reason.clone()).await;
    assert_eq!(run["changed"], true);
    world.up.kill9().await.unwrap();
    world.up.restart().await.unwrap();

    let run = world.run(&id).await;
    assert_eq!(run["status"], "paused_for_intervention", "{run}");
    assert_eq!(run["pause_reason"], reason["reason"]);
    assert!(run["paused_at"].is_string() && run["waiting_on"][0]["remaining_ms"].is_u64());
    let kept = snapshot(world, &id).await;
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
    world.rests().await;
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

/// Saves where it is, and stops at SIGTERM. With `continue` in its arguments it completes.
const PAGES: &str = r#"
args=$(cat)
echo x >> "$HOLDPOINT_SANDBOX/calls"
case "$args" in *stop*) ;; *) echo '{"pages": 9}'; exit 0;; esac
[ "$(wc -l < "$HOLDPOINT_SANDBOX/calls")" -gt 1 ] && { echo '{"pages": 9}'; exit 0; }
echo '{"checkpoint": {"page": 7}, "write_buffer": "half a page"}' > "$HOLDPOINT_SUPPLEMENT"
trap 'exit 76' TERM
while :; do sleep 0.05; done
"#;

fn pages(idempotent: bool) -> Value {
    json!({
        "name": "pages", "risk": "low", "idempotent": idempotent, "suspendable": true, "command": ["sh", "-c", PAGES],
    })
}

async fn until_in_progress(world: &World, id: &str) {
    let supplement = world.up.data_dir().join("sandboxes/default").join(id);
    let supplement = supplement.join("export/.holdpoint-supplement.json");
    holdpoint_testkit::until(crate::world::PATIENCE, "the tool works", async || {
        let run = world.run(id).await;
        let is_granted = run["steps"][0]["status"] == "in_progress";
        (is_granted && supplement.exists()).then_some(())
    })
    .await
    .unwrap();
}

/// S1-R2, S1-R5, S1-R8: SIGTERM suspends a run whose step may have had its effect. The snapshot has what the tool knew,
/// and another node finishes the run when an operator says so.
#[tokio::test]
async fn a_terminated_worker_suspends_an_unsafe_step() {
    let world = World::with_real_time().await;
    let node = Toolbox::of_entry(&world.up, pages(false)).await;
    let export = json!({ "id": "export", "tool": "pages", "args": { "do": "stop" } });
    world.agent("exports", json!([export, log("done")])).await;
    let id = world.start_run("exports", json!({})).await;
    until_in_progress(&world, &id).await;
    node.terminate().await;

    let run = world.until_status(&id, "paused_for_intervention").await;
    assert_eq!(run["pause_reason"], "shutdown", "{run}");
    assert_eq!(run["steps"][0]["status"], "uncertain", "{run}");
    let kept = snapshot(&world, &id).await;
    assert_eq!(kept["complete"], true, "{kept}");
    let content = &kept["snapshot_json"];
    assert_eq!(content["current_step"], "export");
    assert_eq!(content["checkpoint"], json!({ "page": 7 }), "{content}");
    assert_eq!(content["write_buffer"], "half a page");
    let files = content["sandbox"]["files"].as_array().unwrap();
    assert!(
        files.iter().any(|file| file["path"] == "calls"),
        "{content}"
    );
    assert!(std::path::Path::new(content["sandbox"]["path"].as_str().unwrap()).exists());

    let _other = Toolbox::of_entry(&world.up, pages(false)).await;
    world.act(&id, "resume", json!({ "step": "redo" })).await;
    let run = world.until_status(&id, "completed").await;
    assert_eq!(run["steps"][0]["response"]["data"], json!({ "pages": 9 }));
    at_rest(&tables_of(&world.up), &world.up.nats_url)
        .await
        .unwrap();
}

/// S1-R5: another node takes an idempotent step without a person.
#[tokio::test]
async fn a_safe_step_of_a_terminated_worker_continues_elsewhere() {
    let world = World::with_real_time().await;
    let node = Toolbox::of_entry(&world.up, pages(true)).await;
    let export =
        json!({ "id": "export", "tool": "pages", "args": { "do": "stop", "idempotent": true } });
    world.agent("exports", json!([export])).await;
    let id = world.start_run("exports", json!({})).await;
    until_in_progress(&world, &id).await;
    let other = Toolbox::of_entry(&world.up, pages(true)).await;
    node.terminate().await;
    let run = world.until_status(&id, "completed").await;
    assert_eq!(
        run["steps"][0]["response"]["data"],
        json!({ "pages": 9 }),
        "{run}"
    );
    let items = world.items(&id).await;
    let suspended: Vec<_> = items
        .iter()
        .filter(|item| item["type"] == "run.suspended")
        .collect();
    assert_eq!(suspended.len(), 1, "{items:?}");
    assert_eq!(suspended[0]["data"]["auto_resumable"], true);
    let kept = snapshot(&world, &id).await;
    assert_eq!(
        kept["snapshot_json"]["checkpoint"],
        json!({ "page": 7 }),
        "{kept}"
    );
    drop(other);
}

/// S1-R2: an operator suspends a run. The worker adds its part, and the run continues where the operator says.
#[tokio::test]
async fn a_worker_adds_its_part_to_the_snapshot() {
    let world = World::with_real_time().await;
    let _node = Toolbox::of_entry(&world.up, pages(false)).await;
    let export = json!({ "id": "export", "tool": "pages", "args": { "do": "stop" } });
    world
        .agent("exports", json!([export, log("{{ export.pages }} pages")]))
        .await;
    let id = world.start_run("exports", json!({})).await;
    until_in_progress(&world, &id).await;
    let run = world.act(&id, "suspend", json!({ "reason": "odd" })).await;
    assert_eq!(run["paused_by"][0]["in_flight"], json!(["export"]), "{run}");
    let kept = holdpoint_testkit::until(
        crate::world::PATIENCE,
        "the part of the worker",
        async || {
            let kept = snapshot(&world, &id).await;
            (kept["complete"] == true).then_some(kept)
        },
    )
    .await
    .unwrap();
    assert_eq!(
        kept["snapshot_json"]["checkpoint"],
        json!({ "page": 7 }),
        "{kept}"
    );
    let step = json!({ "complete_with": { "result": { "pages": 8 } } });
    world.act(&id, "resume", json!({ "step": step })).await;
    let run = world.until_status(&id, "completed").await;
    assert_eq!(
        run["steps"][0]["response"]["data"],
        json!({ "pages": 8 }),
        "{run}"
    );
    assert_eq!(run["steps"][1]["request"]["message"], "8 pages", "{run}");
}
