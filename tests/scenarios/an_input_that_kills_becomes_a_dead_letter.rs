//! An input that kills the process at each decision becomes a dead letter after three deaths, and no other input
//! does (B-1, Mend 3).

use std::time::Duration;

use holdpoint_testkit::{Up, UpOptions, holdpoint_binary, until};
use serde_json::{Value, json};

use crate::world::{PATIENCE, at_rest, dead_letters, log, tables_of};

/// Allowed deaths until the killing input is a dead letter: one in a batch, three alone, and one more for another
/// input in flight.
const DEATHS_MAX: u32 = 5;

/// Kills in the middle of work.
const KILLS: u32 = 20;

async fn done(up: &Up, run: &str) -> Value {
    let ended = until(PATIENCE, "the run to end", async || {
        let (_, run) = up.get(&format!("/runs/{run}")).await.ok()?;
        (run["status"] == "completed").then_some(run)
    });
    ended.await.unwrap()
}

async fn start(up: &Up, agent: &str) -> String {
    let path = format!("/agents/{agent}/runs");
    let (status, run) = up.post(&path, &json!({})).await.unwrap();
    assert_eq!(status, 201, "{run}");
    run["id"].as_str().unwrap().to_owned()
}

/// Mend 3: a fired timer kills the executor at each delivery. After three deaths alone it is a dead letter; the
/// process stays up, other runs continue, and the run has an incident.
#[tokio::test]
async fn a_killing_input_is_a_dead_letter_after_three_deaths() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut up = Up::start(UpOptions::default()).await.unwrap();
    for (name, steps) in [
        ("waits", json!([{ "wait": "1s" }, log("after")])),
        ("works", json!([log("at once")])),
    ] {
        let agent = json!({ "agent": name, "steps": steps });
        assert_eq!(up.post("/agents", &agent).await.unwrap().0, 201);
    }
    up.options_mut().env = vec![(
        "HOLDPOINT_CRASH".to_owned(),
        "executor:decided:1:timers_fired".to_owned(),
    )];
    up.restart().await.unwrap();
    let run = start(&up, "waits").await;
    up.ended(PATIENCE).await.unwrap();
    let mut deaths = 1;
    loop {
        // It may die again while it starts.
        let is_up = up.restart().await.is_ok();
        if is_up && up.ended(Duration::from_secs(15)).await.is_err() {
            break;
        }
        deaths += 1;
        assert!(deaths <= DEATHS_MAX, "it does not stop dying");
    }
    let other = start(&up, "works").await;
    done(&up, &other).await;
    let data = up.data_dir();
    let kept = until(PATIENCE, "the dead letter", async || {
        (dead_letters(&data).await.ok()? == 1).then_some(())
    });
    kept.await.unwrap();
    let (_, events) = up.get(&format!("/runs/{run}/events")).await.unwrap();
    let items = events["items"].as_array().unwrap();
    assert!(
        items.iter().any(|item| item["type"] == "run.incident"),
        "the run says what happened: {events}"
    );
    the_letter_is_replayed(&mut up, &run).await;
}

/// Mend 6: an operator replays the dead letter after the fix, and the run continues.
async fn the_letter_is_replayed(up: &mut Up, run: &str) {
    up.options_mut().env.clear();
    up.restart().await.unwrap();
    let listed = typed(up, &["dead", "list"]).await;
    let line = listed.lines().find(|line| line.contains("timers_fired"));
    let id = line.unwrap().split_whitespace().next().unwrap().to_owned();
    assert!(id.starts_with("executor-"), "{listed}");
    let shown = typed(up, &["dead", "show", &id]).await;
    assert!(shown.contains("\"ended_the_process\": true"), "{shown}");
    typed(up, &["dead", "replay", &id]).await;
    done(up, run).await;
    let (_, left) = up.get("/dead").await.unwrap();
    assert_eq!(left["items"], json!([]), "{left}");
    let (status, gone) = up.get(&format!("/dead/{id}")).await.unwrap();
    assert_eq!(status, 404, "{gone}");
}

/// The output of a command.
async fn typed(up: &Up, args: &[&str]) -> String {
    let output = tokio::process::Command::new(holdpoint_binary().unwrap())
        .args(args)
        .arg("--data")
        .arg(up.data_dir())
        .output()
        .await
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Mend 3: twenty kills under load leave no dead letter.
#[tokio::test]
async fn twenty_kills_under_load_leave_no_dead_letter() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut up = Up::start(UpOptions::default()).await.unwrap();
    let steps = json!([log("one"), { "wait": "1s" }, log("two")]);
    let agent = json!({ "agent": "load", "steps": steps });
    assert_eq!(up.post("/agents", &agent).await.unwrap().0, 201);
    let mut runs = Vec::new();
    for kill in 0..KILLS {
        for number in 0..10 {
            let key = format!("{kill}-{number}");
            let started = up.post_under(&key, "/agents/load/runs", &json!({})).await;
            let (status, run) = started.unwrap();
            assert_eq!(status, 201, "{run}");
            runs.push(run["id"].as_str().unwrap().to_owned());
        }
        up.restart().await.unwrap();
    }
    for run in runs {
        done(&up, &run).await;
    }
    at_rest(&tables_of(&up), &up.nats_url).await.unwrap();
}
