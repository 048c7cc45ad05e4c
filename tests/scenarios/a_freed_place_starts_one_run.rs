//! The executor dies while it hands the place of an ended run on, at each crash point of its sweep.

use std::time::Duration;

use holdpoint_testkit::until;
use serde_json::json;

use crate::fleet::{Api, Ground};
use crate::world::{at_rest, log};

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_killed_hand_over_starts_the_next_run_once() {
    let ground = Ground::on_sqlite().await;
    let _scheduler = ground.serve("scheduler", &[]).await;
    let _handoff = ground.serve("handoff", &[]).await;
    let _notification = ground.serve("notification", &[]).await;
    let gateway = ground
        .serve("gateway", &["--http", "127.0.0.1:0", "--owner-token"])
        .await;
    let api = Api::of(&gateway);
    let mut executor = ground.serve("executor", &[]).await;
    let agent = json!({
        "agent": "serial", "limits": { "concurrency": { "runs": 1 } },
        "steps": [log("begun"), { "wait": "1 day" }],
    });
    let (status, body) = api.post("/agents", &agent).await;
    assert_eq!(status, 201, "{body}");
    for point in ["fetched", "decided", "committed", "published"] {
        let mut runs = Vec::new();
        for _ in 0..2 {
            let (status, run) = api.post("/agents/serial/runs", &json!({})).await;
            assert_eq!(status, 201, "{run}");
            runs.push(run["id"].as_str().unwrap().to_owned());
        }
        executor.terminate().await;
        let crash = format!("executor:{point}:1:queued_runs");
        let mut doomed = ground.serve_doomed("executor", &crash).await;
        // The gateway keeps the command until an executor takes it.
        let (status, body) = api
            .post(&format!("/runs/{}/cancel", runs[0]), &json!({}))
            .await;
        assert!(status == 200 || status == 202, "{status} {body}");
        assert!(doomed.dies(PATIENCE).await, "{point}: {}", doomed.log());
        executor = ground.serve("executor", &[]).await;
        until(
            PATIENCE,
            &format!("{point}: the next run waits"),
            async || {
                let run = api.get(&format!("/runs/{}", runs[1])).await;
                (run["status"] == "waiting").then_some(())
            },
        )
        .await
        .unwrap();
        let items = api
            .get(&format!("/runs/{}/events?limit=500", runs[1]))
            .await;
        let items = items["items"].as_array().unwrap();
        let calls = items.iter().filter(|item| item["type"] == "step.called");
        assert_eq!(calls.count(), 1, "{point}: {items:?}");
        let path = format!("/runs/{}/cancel", runs[1]);
        assert_eq!(api.post(&path, &json!({})).await.0, 200);
    }
    assert!(!executor.log().contains("panicked"), "{}", executor.log());
    at_rest(&ground.database, &ground.nats.url).await.unwrap();
}
