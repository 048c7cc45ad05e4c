//! Production: each service a process of its own, on a given bus and database.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use holdpoint_testkit::{Up, UpOptions, holdpoint_binary, nats, postgres, until};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::world::{PATIENCE, log};

/// A service that said that it is ready.
struct Served {
    child: Child,
    hello: Value,
}

struct Place {
    nats_url: String,
    database_url: String,
    secrets: PathBuf,
}

impl Place {
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(holdpoint_binary().unwrap());
        command
            .args(words)
            .env("HOLDPOINT_NATS_URL", &self.nats_url)
            .env("HOLDPOINT_DATABASE_URL", &self.database_url)
            .env("HOLDPOINT_SECRETS", &self.secrets)
            .kill_on_drop(true);
        command
    }

    async fn serve(&self, words: &[&str]) -> Served {
        let mut command = self.command(&["serve"]);
        let mut child = command.args(words).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await;
        let line = line.unwrap().unwrap().unwrap();
        let hello: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (&hello["service"], &hello["ready"]),
            (&json!(words[0]), &json!(true))
        );
        Served { child, hello }
    }

    /// What a command that ends says: its code, and its stderr.
    async fn fails(&self, words: &[&str]) -> (i32, String) {
        let ended = self.command(words).output().await.unwrap();
        let told = String::from_utf8(ended.stderr).unwrap();
        (ended.status.code().unwrap(), told)
    }
}

impl Served {
    /// SIGTERM: it finishes what it has and leaves with 0.
    async fn terminate(mut self) {
        let pid = self.child.id().unwrap().to_string();
        let kill = Command::new("kill").args(["-TERM", &pid]).status().await;
        assert!(kill.unwrap().success());
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        assert_eq!(ended.unwrap().unwrap().code(), Some(0));
    }
}

async fn secrets(folder: &Path) -> PathBuf {
    let made = Command::new(holdpoint_binary().unwrap())
        .args(["secrets", "new"])
        .output()
        .await
        .unwrap();
    let path = folder.join("secrets.json");
    std::fs::write(&path, made.stdout).unwrap();
    path
}

async fn ask(client: &reqwest::Client, gateway: &Value, path: &str, body: Option<Value>) -> Value {
    let url = format!(
        "{}/v1/workspaces/default/{path}",
        gateway["http"].as_str().unwrap()
    );
    let request = match body {
        Some(body) => client.post(url).json(&body),
        None => client.get(url),
    };
    let token = gateway["token"].as_str().unwrap();
    let answer = request.bearer_auth(token).send().await.unwrap();
    assert!(answer.status().is_success(), "{}", answer.status());
    answer.json().await.unwrap()
}

/// M-20: a wait goes through four processes, and goes on after a service was replaced meanwhile.
#[tokio::test]
async fn a_wait_survives_the_restart_of_a_service() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let (nats, folder) = (nats().await.unwrap(), tempfile::tempdir().unwrap());
    let place = Place {
        nats_url: nats.url.clone(),
        database_url: format!("sqlite:{}", folder.path().join("tables").display()),
        secrets: secrets(folder.path()).await,
    };
    let migrated = place.command(&["migrate"]).output().await.unwrap();
    assert!(migrated.status.success());
    let scheduler = place.serve(&["scheduler"]).await;
    let handoff = place.serve(&["handoff"]).await;
    let executor = place.serve(&["executor", "--health", "127.0.0.1:0"]).await;
    let gateway = place
        .serve(&["gateway", "--http", "127.0.0.1:0", "--owner-token"])
        .await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let health = executor.hello["health"].as_str().unwrap();
    for page in ["livez", "readyz"] {
        let answer = client.get(format!("{health}/{page}")).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{page}");
    }
    let hello = &gateway.hello;
    let agent = json!({ "agent": "short", "steps": [{ "wait": "3s" }] });
    ask(&client, hello, "agents", Some(agent)).await;
    let run = ask(&client, hello, "agents/short/runs", Some(json!({}))).await;
    let path = format!("runs/{}", run["id"].as_str().unwrap());

    let (code, told) = place.fails(&["serve", "executor"]).await;
    assert_eq!(code, 1);
    assert!(
        told.contains("executor.db") && told.contains("postgres://"),
        "{told}"
    );
    executor.terminate().await;
    let executor = place.serve(&["executor"]).await;
    let is_over = async || {
        let run = ask(&client, hello, &path, None).await;
        (run["status"] == "completed").then_some(())
    };
    until(PATIENCE, "the run to complete", is_over)
        .await
        .unwrap();
    gateway.terminate().await;
    executor.terminate().await;
    handoff.terminate().await;
    scheduler.terminate().await;
}

/// What is not there yet says so, as wrong usage.
#[tokio::test]
async fn a_service_that_is_not_there_yet_says_so() {
    let (nats, folder) = (nats().await.unwrap(), tempfile::tempdir().unwrap());
    let place = Place {
        nats_url: nats.url.clone(),
        database_url: format!("sqlite:{}", folder.path().join("tables").display()),
        secrets: secrets(folder.path()).await,
    };
    let (code, told) = place.fails(&["serve", "notification"]).await;
    assert_eq!(code, 2);
    assert!(told.contains("comes with People"), "{told}");
}

/// M-20: everything in one process, on Postgres.
#[tokio::test]
async fn up_keeps_its_tables_in_postgres_when_told_so() {
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

/// The figures of `bench` count for something only if it finds that nothing was lost.
#[tokio::test]
async fn the_bench_checks_what_it_measured() {
    let ended = Command::new(holdpoint_binary().unwrap())
        .args(["bench", "p2", "--runs", "20", "--in-flight", "5"])
        .output()
        .await
        .unwrap();
    let told = String::from_utf8(ended.stdout).unwrap();
    assert!(ended.status.success(), "{told}");
    let result: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(result["tables"]["ok"], true);
    assert_eq!(result["load"]["runs"], 20);
    assert_eq!(result["worker"]["executed_twice"], 0);
}
