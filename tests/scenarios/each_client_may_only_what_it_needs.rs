//! The server's own permissions, as `holdpoint nats-config` writes them.

use std::path::Path;
use std::time::Duration;

use holdpoint_bus::Bus;
use holdpoint_contracts::handoff::{DecideRequest, Decision};
use holdpoint_contracts::message::Command as _;
use holdpoint_contracts::scheduler::{SetTimer, SetTimers};
use holdpoint_ids::{HoldId, Workspace};
use holdpoint_testkit::{holdpoint_binary, nats_with_config, until};
use serde_json::json;
use tokio::process::Command;

use crate::fleet::{Api, Ground};
use crate::world::log;

fn seed(dir: &Path, client: &str) -> String {
    let text = std::fs::read_to_string(dir.join(format!("{client}.seed")));
    text.unwrap().trim().to_owned()
}

/// DESIGN, Subjects: NATS permissions say who may publish what; the whole system runs with them.
#[tokio::test]
async fn the_system_runs_and_nobody_speaks_for_another() {
    let dir = tempfile::tempdir().unwrap();
    let status = Command::new(holdpoint_binary().unwrap())
        .args([
            "nats-config",
            "--program",
            "default",
            "--listen",
            "0.0.0.0:4222",
        ])
        .args(["--store", "/data", "--out"])
        .arg(dir.path())
        .status()
        .await
        .unwrap();
    assert!(status.success());
    let config = std::fs::read_to_string(dir.path().join("nats.conf")).unwrap();
    let nats = nats_with_config(&config).await.unwrap();
    let Some(mut ground) = Ground::new().await else {
        return;
    };
    let url = nats.url.clone();
    ground.nats = nats;
    let mut running = Vec::new();
    for service in ["executor", "scheduler", "handoff", "notification"] {
        let key = seed(dir.path(), service);
        running.push(ground.serve(service, &["--nats-seed", &key]).await);
    }
    let key = seed(dir.path(), "gateway");
    let args = [
        "--http",
        "127.0.0.1:0",
        "--owner-token",
        "--nats-seed",
        &key,
    ];
    let gateway = ground.serve("gateway", &args).await;
    let _worker = ground.worker_as(&seed(dir.path(), "worker")).await;
    let api = Api::of(&gateway);
    let agent = json!({ "agent": "a", "steps": [{ "wait": "1s" }, log("x")] });
    assert_eq!(api.post("/agents", &agent).await.0, 201);
    let (_, run) = api.post("/agents/a/runs", &json!({})).await;
    let path = format!("/runs/{}", run["id"].as_str().unwrap());
    until(crate::world::PATIENCE, "the run ends", async || {
        (api.get(&path).await["status"] == "completed").then_some(())
    })
    .await
    .unwrap();
    for process in running.iter().chain([&gateway]) {
        let log = process.log();
        assert!(!log.contains("ermissions violation"), "{log}");
    }
    refused(&url, dir.path()).await;
}

/// What a worker and a program publish beyond their rights is stored nowhere.
async fn refused(url: &str, dir: &Path) {
    let workspace: Workspace = "default".parse().unwrap();
    let id = HoldId::standalone();
    let decide = DecideRequest {
        id,
        decision: Decision::Approve { comment: None },
        version: None,
    };
    let timers = SetTimers {
        owner: "executor".to_owned(),
        timers: vec![SetTimer {
            id: id.to_string(),
            rev: 1,
            due: None,
        }],
    };
    for (client, name) in [("worker", "worker"), ("program-default", "program")] {
        let key = seed(dir, client);
        let bus = Bus::connect_as(url, name, Some(&key)).await.unwrap();
        let jetstream = async_nats::jetstream::context::ContextBuilder::new()
            .ack_timeout(Duration::from_secs(1))
            .build(bus.client().clone());
        for subject in [decide.subject(&workspace), timers.subject(&workspace)] {
            let stored = jetstream
                .publish(subject.clone(), "{}".into())
                .await
                .unwrap()
                .await;
            assert!(stored.is_err(), "{client} publishes to {subject}");
        }
    }
    assert!(
        Bus::connect(url, "stranger").await.is_err(),
        "no key, no connection"
    );
}
