//! Each service has a database role that sees only its schema (M-3).

use sea_orm::{ConnectionTrait as _, Database};
use serde_json::json;
use tokio::process::Command;

use crate::fleet::{Api, Ground};
use crate::world::log;

const SERVICES: [&str; 5] = [
    "executor",
    "scheduler",
    "handoff",
    "notification",
    "gateway",
];

/// One table of each service.
const TABLES: [&str; 5] = [
    "runs",
    "timers",
    "requests",
    "notification_events",
    "tokens",
];

/// M-3
#[tokio::test]
async fn each_role_reads_only_its_schema() {
    let Some(ground) = Ground::new().await else {
        return;
    };
    let url = &ground.database;
    let output = Command::new(holdpoint_testkit::holdpoint_binary().unwrap())
        .args(["migrate", "--roles", "--database-url", url])
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let made: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let address = |service: &str| made[service].as_str().unwrap().to_owned();

    let mut running = Vec::new();
    for service in &SERVICES[..4] {
        running.push(ground.serve_on(service, &address(service), &[]).await);
    }
    let args = ["--http", "127.0.0.1:0", "--owner-token"];
    let gateway = ground.serve_on("gateway", &address("gateway"), &args).await;
    let _worker = ground.worker().await;
    // The system works with the restricted roles…
    let api = Api::of(&gateway);
    let agent = json!({ "agent": "a", "steps": [{ "wait": "1s" }, log("x")] });
    assert_eq!(api.post("/agents", &agent).await.0, 201);
    let (_, run) = api.post("/agents/a/runs", &json!({})).await;
    let path = format!("/runs/{}", run["id"].as_str().unwrap());
    holdpoint_testkit::until(crate::world::PATIENCE, "the run ends", async || {
        (api.get(&path).await["status"] == "completed").then_some(())
    })
    .await
    .unwrap();
    // …and no role reads a table of another service.
    for service in SERVICES {
        let db = Database::connect(address(service)).await.unwrap();
        for (owner, table) in SERVICES.iter().zip(TABLES) {
            let statement = format!("SELECT 1 FROM {owner}.{table} LIMIT 1");
            let read = db.execute_unprepared(&statement).await;
            if *owner == service {
                read.unwrap();
            } else {
                let refused = read.unwrap_err().to_string();
                assert!(
                    refused.contains("permission denied"),
                    "{service}: {refused}"
                );
            }
        }
    }
}
