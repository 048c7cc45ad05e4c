//! The folder of JetStream is removed, or restored from an old copy. The tables repair it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use holdpoint_bus::server::kill_leftover;
use holdpoint_testkit::{Up, UpOptions, until};
use serde_json::{Value, json};

use crate::shop::Shop;
use crate::world::{PATIENCE, log};

/// Runs that wait, and as many that work.
const RUNS: usize = 250;

/// Lost messages are sent again within this time.
const LONG: Duration = Duration::from_secs(180);

/// The loss of data while nothing runs.
enum Loss {
    /// The whole folder is lost.
    Wiped,
    /// The newest messages are lost.
    Tail,
}

async fn start(up: &Up, agent: &str) -> String {
    let path = format!("/agents/{agent}/runs");
    let (status, run) = up.post(&path, &json!({})).await.unwrap();
    assert_eq!(status, 201, "{run}");
    run["id"].as_str().unwrap().to_owned()
}

async fn stop_everything(up: &mut Up) {
    up.kill9().await.unwrap();
    kill_leftover(&up.data_dir());
}

fn copy(from: &Path, to: &Path) {
    let status = std::process::Command::new("cp")
        .args(["-a", "--"])
        .args([from, to])
        .status()
        .unwrap();
    assert!(status.success());
}

async fn loses(loss: Loss) {
    drop(rustls::crypto::ring::default_provider().install_default());
    let shop = Shop::slow(Duration::from_secs(2)).await;
    let mut up = Up::start(UpOptions::default()).await.unwrap();
    let call = json!({ "method": "POST", "url": shop.url("/orders"), "idempotent": true });
    let works = json!([{ "tool": "http_request", "args": call }, log("after")]);
    for (name, steps) in [
        ("waits", json!([{ "wait": "20s" }, log("after")])),
        ("works", works),
    ] {
        let agent = json!({ "agent": name, "steps": steps });
        let (status, body) = up.post("/agents", &agent).await.unwrap();
        assert_eq!(status, 201, "{body}");
    }
    let nats = up.data_dir().join("nats");
    let kept = up.data_dir().join("nats-before");
    stop_everything(&mut up).await;
    copy(&nats, &kept);
    up.restart().await.unwrap();

    let waiting = join_all((0..RUNS).map(|_| start(&up, "waits"))).await;
    let working = join_all((0..RUNS).map(|_| start(&up, "works"))).await;
    until(PATIENCE, "some calls are under way", async || {
        (shop.calls().len() >= RUNS / 8).then_some(())
    })
    .await
    .unwrap();
    stop_everything(&mut up).await;
    std::fs::remove_dir_all(&nats).unwrap();
    if matches!(loss, Loss::Tail) {
        copy(&kept, &nats);
    }
    up.restart().await.unwrap();

    for id in waiting.iter().chain(&working) {
        until(LONG, &format!("run {id} is completed"), async || {
            let (_, run) = up.get(&format!("/runs/{id}")).await.ok()?;
            (run["status"] == "completed").then_some(())
        })
        .await
        .unwrap();
    }
    for id in &working {
        assert_eq!(
            succeeded(&up, id).await,
            1,
            "{id}: a result is applied once"
        );
    }
    // Each run has at least one effect at the tool, all under the key of the run.
    let mut effects: BTreeMap<String, usize> = BTreeMap::new();
    for call in shop.calls() {
        let key = call.header("idempotency-key").to_owned();
        *effects.entry(key).or_default() += 1;
    }
    assert_eq!(effects.len(), RUNS);
}

async fn succeeded(up: &Up, id: &str) -> usize {
    let path = format!("/runs/{id}/events?limit=500");
    let (_, page) = up.get(&path).await.unwrap();
    let items = page["items"].as_array().unwrap();
    let is_first = |item: &&Value| item["type"] == "step.succeeded" && item["step"] == "step-01";
    items.iter().filter(is_first).count()
}

/// 500 runs wait and work while the whole folder is lost.
#[tokio::test]
async fn a_wiped_bus_loses_no_work() {
    Box::pin(loses(Loss::Wiped)).await;
}

/// The folder has lost its last minutes.
#[tokio::test]
async fn a_bus_without_its_newest_messages_loses_no_work() {
    Box::pin(loses(Loss::Tail)).await;
}
