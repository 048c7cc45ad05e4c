//! A step of a suspended run continues with what its last call saved, also if that is large (S1-R2, S1-R8, S1-R9).

use std::sync::Arc;

use holdpoint_bus::Bus;
use holdpoint_testkit::{holdpoint_binary, until};
use holdpoint_worker::tool::{Risk, ToolCall, ToolFailure, ToolSuccess, tool_fn};
use holdpoint_worker::worker::{Worker, WorkerOptions};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::toolbox::Toolbox;
use crate::world::{PATIENCE, World, at_rest, tables_of};

/// Larger than two chunks of an upload.
const LARGE: usize = 1_200_000;

/// The snapshot, once the worker has added its part.
async fn complete_snapshot(world: &World, id: &str) -> Value {
    until(PATIENCE, "the part of the worker", async || {
        let path = format!("/runs/{id}/snapshot");
        let (_, kept) = world.up.get(&path).await.unwrap();
        (kept["complete"] == true).then_some(kept)
    })
    .await
    .unwrap()
}

async fn until_in_progress(world: &World, id: &str) {
    until(PATIENCE, "the step is in progress", async || {
        let run = world.run(id).await;
        (run["steps"][0]["status"] == "in_progress").then_some(())
    })
    .await
    .unwrap();
}

/// S1-R2, S1-R9: a checkpoint of more than 64 KiB that a tool of the Rust SDK has saved comes back after a resume.
#[tokio::test]
async fn a_large_checkpoint_survives_a_suspension() {
    let world = World::with_real_time().await;
    let bus = Bus::connect(&world.up.nats_url, "worker").await.unwrap();
    let tool = tool_fn("copy", Risk::Low, |call: ToolCall| async move {
        if let Some(saved) = call.suspension.checkpoint().as_str() {
            return Ok(ToolSuccess {
                description: "Copied the rest".to_owned(),
                data: json!({ "saved": saved.len(), "end": saved.get(saved.len() - 3..) }),
            });
        }
        let saved = format!("{}end", "ü".repeat(LARGE / 2));
        call.suspension.save_checkpoint(json!(saved));
        call.suspension.requested().await;
        Err(ToolFailure::suspended())
    });
    let options = WorkerOptions::new("sdk-1".parse().unwrap());
    let stop = CancellationToken::new();
    let worker = Worker::new(bus, options).tool(Arc::new(tool));
    let working = tokio::spawn(worker.run(stop.clone()));
    let copy = json!({ "id": "copy", "tool": "copy", "args": {} });
    world.agent("copies", json!([copy])).await;
    let id = world.start_run("copies", json!({})).await;
    until_in_progress(&world, &id).await;
    world.act(&id, "suspend", json!({ "reason": "odd" })).await;

    let kept = complete_snapshot(&world, &id).await;
    let reference = &kept["snapshot_json"]["checkpoint"];
    assert_eq!(reference["stored"], true, "{kept}");
    let size = reference["size"].as_u64().unwrap();
    assert!(size > u64::try_from(LARGE).unwrap(), "{reference}");
    let hash = reference["sha256"].as_str().unwrap();
    let path = format!("/runs/{id}/steps/copy/blobs/{hash}");
    // An operator reads it in whole. It is a JSON text.
    let (status, value) = world.up.get(&path).await.unwrap();
    assert_eq!(status, 200);
    let text = value.as_str().unwrap();
    assert!(text.len() == LARGE + 3 && text.ends_with("üend"));
    let (status, problem) = world
        .up
        .get(&format!("{path}?offset={size}"))
        .await
        .unwrap();
    assert_eq!((status, &problem["code"]), (400, &json!("invalid_query")));
    let other = format!("/runs/{id}/steps/other/blobs/{hash}");
    assert_eq!(world.up.get(&other).await.unwrap().0, 404);

    world.act(&id, "resume", json!({ "step": "redo" })).await;
    let run = world.until_status(&id, "completed").await;
    let expected = json!({ "saved": LARGE + 3, "end": "end" });
    assert_eq!(run["steps"][0]["response"]["data"], expected, "{run}");
    stop.cancel();
    working.await.unwrap().unwrap();
    at_rest(&tables_of(&world.up), &world.up.nats_url)
        .await
        .unwrap();
}

/// Completes with what it finds. At its first call it finds nothing, saves where it is, and stops at SIGTERM.
const FINDS: &str = r#"
cat > /dev/null
if [ -f "$HOLDPOINT_SUPPLEMENT" ]; then
  printf '{"state": "%s", "saved": %s}' "$HOLDPOINT_SANDBOX_STATE" "$(cat "$HOLDPOINT_SUPPLEMENT")"
  exit 0
fi
echo '{"checkpoint": {"page": 7}}' > "$HOLDPOINT_SUPPLEMENT"
trap 'exit 76' TERM
while :; do sleep 0.05; done
"#;

/// S1-R8: the sandbox survives the suspension. The call, the snapshot and the history tell whether it still matches. It
/// is removed by command, and the saved values come back from the snapshot.
#[tokio::test]
async fn a_resume_tells_whether_the_sandbox_still_matches() {
    let world = World::with_real_time().await;
    let entry = json!({ "name": "finds", "risk": "low", "suspendable": true, "command": ["sh", "-c", FINDS] });
    let _node = Toolbox::of_entry(&world.up, entry).await;
    let export = json!({ "id": "export", "tool": "finds", "args": {} });
    world.agent("exports", json!([export])).await;
    let sandboxes = world.up.data_dir().join("sandboxes");
    for state in ["unchanged", "changed", "absent"] {
        let id = world.start_run("exports", json!({})).await;
        until_in_progress(&world, &id).await;
        let sandbox = sandboxes.join("default").join(&id).join("export");
        let supplement = sandbox.join(".holdpoint-supplement.json");
        until(PATIENCE, "the tool has saved", async || {
            supplement.exists().then_some(())
        })
        .await
        .unwrap();
        world.act(&id, "suspend", json!({ "reason": "odd" })).await;
        let kept = complete_snapshot(&world, &id).await;
        let files = &kept["snapshot_json"]["sandbox"]["files"];
        assert_eq!(files[0]["path"], ".holdpoint-supplement.json", "{kept}");
        match state {
            "changed" => std::fs::write(sandbox.join("new"), "x").unwrap(),
            "absent" => {
                let mut remove = tokio::process::Command::new(holdpoint_binary().unwrap());
                remove.arg("worker").arg("--sandboxes").arg(&sandboxes);
                remove.args(["--remove-sandbox", &id]);
                assert!(remove.status().await.unwrap().success());
                assert!(!sandbox.exists());
                assert_eq!(remove.status().await.unwrap().code(), Some(3));
            }
            _ => {}
        }
        world.act(&id, "resume", json!({ "step": "redo" })).await;
        let run = world.until_status(&id, "completed").await;
        let data = &run["steps"][0]["response"]["data"];
        assert_eq!(data["state"], state, "{run}");
        assert_eq!(data["saved"]["checkpoint"], json!({ "page": 7 }), "{run}");
        let path = format!("/runs/{id}/snapshot");
        let (_, kept) = world.up.get(&path).await.unwrap();
        let found = &kept["snapshot_json"]["sandbox"]["found"];
        assert_eq!(found["state"], state, "{kept}");
        let items = world.items(&id).await;
        let continued = items.iter().find(|item| item["type"] == "step.continued");
        let reported = &continued.unwrap()["data"];
        assert_eq!(reported["sandbox"], *found, "{reported}");
    }
}
