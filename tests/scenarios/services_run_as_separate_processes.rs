//! Production: each service is a separate process on a given bus and database.

use std::time::Duration;

use holdpoint_testkit::{Up, UpOptions, holdpoint_binary, postgres, until};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::fleet::{Api, Ground};
use crate::world::{PATIENCE, log};

/// M-3: a wait goes through four processes, and ends after a service was replaced.
#[tokio::test]
async fn a_wait_survives_the_restart_of_a_service() {
    let ground = Ground::on_sqlite().await;
    assert_eq!(ground.ends(&["migrate"]).await.0, 0);
    let scheduler = ground.serve("scheduler", &[]).await;
    let handoff = ground.serve("handoff", &[]).await;
    let args = ["--health", "127.0.0.1:0"];
    let executor = ground.serve("executor", &args).await;
    let args = ["--http", "127.0.0.1:0", "--owner-token"];
    let gateway = ground.serve("gateway", &args).await;
    let (service, ready) = (&gateway.said["service"], &gateway.said["ready"]);
    assert_eq!((service, ready), (&json!("gateway"), &json!(true)));
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let health = executor.said["health"].as_str().unwrap();
    for page in ["livez", "readyz"] {
        let answer = client.get(format!("{health}/{page}")).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{page}");
    }
    let api = Api::of(&gateway);
    let agent = json!({ "agent": "short", "steps": [{ "wait": "3s" }] });
    assert_eq!(api.post("/agents", &agent).await.0, 201);
    let (status, run) = api.post("/agents/short/runs", &json!({})).await;
    assert_eq!(status, 201, "{run}");
    let path = format!("/runs/{}", run["id"].as_str().unwrap());

    let (code, output) = ground.ends(&["serve", "executor"]).await;
    assert_eq!(code, 1);
    assert!(
        output.contains("executor.db") && output.contains("postgres://"),
        "{output}"
    );
    executor.terminate().await;
    let executor = ground.serve("executor", &[]).await;
    let is_over = async || {
        let run = api.get(&path).await;
        (run["status"] == "completed").then_some(())
    };
    until(PATIENCE, "the run to complete", is_over)
        .await
        .unwrap();
    for service in [gateway, executor, handoff, scheduler] {
        service.terminate().await;
    }
}

/// M-3: everything in one process, on Postgres.
#[tokio::test]
async fn up_stores_its_tables_in_postgres_by_option() {
    let Some(postgres) = postgres().await.unwrap() else {
        return;
    };
    let args = vec!["--database-url".to_owned(), postgres.url.clone()];
    let options = UpOptions {
        args,
        ..UpOptions::default()
    };
    let mut up = Up::start(options).await.unwrap();
    assert!(!up.data_dir().join("executor.db").exists());
    let agent = json!({ "agent": "short", "steps": [{ "wait": "2s" }, log("after")] });
    let (status, body) = up.post("/agents", &agent).await.unwrap();
    assert_eq!(status, 201, "{body}");
    let (_, run) = up.post("/agents/short/runs", &json!({})).await.unwrap();
    let path = format!("/runs/{}", run["id"].as_str().unwrap());
    up.kill9().await.unwrap();
    up.restart().await.unwrap();
    let is_over = async || {
        let (_, run) = up.get(&path).await.unwrap();
        (run["status"] == "completed").then_some(())
    };
    until(Duration::from_secs(60), "the run to complete", is_over)
        .await
        .unwrap();
}

/// Runs `bench`; returns its result.
async fn bench(args: &str) -> Value {
    let mut command = Command::new(holdpoint_binary().unwrap());
    let ended = command.arg("bench").args(args.split(' ')).output();
    let ended = ended.await.unwrap();
    let output = String::from_utf8(ended.stdout).unwrap();
    assert!(ended.status.success(), "{output}");
    serde_json::from_str(&output).unwrap()
}

/// `bench` reports figures only if nothing was lost.
#[tokio::test]
async fn the_bench_checks_what_it_measured() {
    let result = bench("p2 --runs 20 --in-flight 5").await;
    assert_eq!(result["tables"]["ok"], true);
    assert_eq!(result["load"]["runs"], 20);
    assert_eq!(result["worker"]["executed_twice"], 0);
}

/// `bench p4` answers through the gateway, and each answer moves its run exactly once.
#[tokio::test]
async fn the_bench_answers_through_the_gateway() {
    let result = bench("p4 --runs 20 --in-flight 5").await;
    let effects = result["load"]["effects"].as_object().unwrap();
    let answered = ["applied", "pending"].map(|effect| effects.get(effect).and_then(Value::as_u64));
    assert_eq!(answered.into_iter().flatten().sum::<u64>(), 20);
    assert_eq!(result["tables"]["ok"], true);
    assert_eq!(result["worker"]["executed_twice"], 0);
    assert!(result["worker"]["step_after_answer"]["p50_ms"].as_f64() > Some(0.0));
}
