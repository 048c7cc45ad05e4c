//! The disk under the tables and under JetStream is full, truly: nothing is lost or doubled, whoever asks is
//! told, and with room again everything goes on by itself.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::future::join_all;
use holdpoint_testkit::{Up, UpOptions, until};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::shop::Shop;
use crate::world::{PATIENCE, dead_letters, log};

/// What `up` needs at its start, and some more.
const DISK_BYTES: u64 = 24 << 20;

/// Runs that are under way when the disk gets full.
const RUNS: usize = 20;

/// Starts that are refused before there is room again; each is tried for as long as a caller waits.
const REFUSED: usize = 3;

/// Starts for which there may still be room.
const LATE_MAX: usize = 400;

/// The bus is started anew only after it was silent for a while.
const LONG: Duration = Duration::from_secs(120);

/// A file that takes all the room there is, and all that is given back meanwhile.
struct Filler {
    file: PathBuf,
    is_over: Arc<AtomicBool>,
    filling: JoinHandle<()>,
}

impl Filler {
    /// Returns when there is no room for one byte more.
    async fn begin(file: PathBuf) -> Self {
        let is_over = Arc::<AtomicBool>::default();
        let (full, is_full) = oneshot::channel();
        let mut to = File::create(&file).unwrap();
        let over = Arc::clone(&is_over);
        let filling = std::thread::spawn(move || {
            fill(&mut to);
            full.send(()).unwrap();
            while !over.load(Ordering::Acquire) {
                fill(&mut to);
                std::thread::yield_now();
            }
        });
        is_full.await.unwrap();
        Self {
            file,
            is_over,
            filling,
        }
    }

    fn end(self) {
        self.is_over.store(true, Ordering::Release);
        self.filling.join().unwrap();
        std::fs::remove_file(&self.file).unwrap();
    }
}

fn fill(file: &mut File) {
    for block in [1 << 16, 1 << 12, 1] {
        let zeros = vec![0_u8; block];
        while file.write_all(&zeros).is_ok() {}
    }
}

async fn start(up: &Up, agent: &str, key: &str) -> (u16, Value) {
    let path = format!("/agents/{agent}/runs");
    up.post_under(key, &path, &json!({})).await.unwrap()
}

async fn is_ready(up: &Up) -> bool {
    let answer = reqwest::get(format!("{}/readyz", up.url)).await.unwrap();
    answer.status().is_success()
}

/// Issue Ground, "disk full for SQLite and JetStream": a disk of its own, filled to the last byte while runs wait and
/// work. Counted: effects at the tool, results applied, dead letters.
#[tokio::test]
async fn a_full_disk_costs_time_and_no_work() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let shop = Shop::slow(Duration::from_millis(500)).await;
    let options = UpOptions {
        disk_bytes: Some(DISK_BYTES),
        ..UpOptions::default()
    };
    let up = Up::start(options).await.unwrap();
    let call = json!({ "method": "POST", "url": shop.url("/orders"), "idempotent": true });
    let steps = json!([{ "wait": "3s" }, { "tool": "http_request", "args": call }, { "wait": "1s" }, log("after")]);
    let agent = json!({ "agent": "busy", "steps": steps });
    let (status, body) = up.post("/agents", &agent).await.unwrap();
    assert_eq!(status, 201, "{body}");
    let keys: Vec<_> = (0..RUNS).map(|n| format!("run-{n}")).collect();
    let started = join_all(keys.iter().map(|key| start(&up, "busy", key))).await;
    assert!(started.iter().all(|(status, _)| *status == 201));

    let filler = Filler::begin(up.data_as_it_sees_it().unwrap().join("filler")).await;
    // Under keys of their own, so that whoever was refused can ask again without a second run.
    let mut late = Vec::new();
    let mut refused = 0;
    while refused < REFUSED && late.len() < LATE_MAX {
        late.push(format!("late-{}", late.len()));
        let (status, body) = start(&up, "busy", &late[late.len() - 1]).await;
        match status {
            // What SQLite's log had room for already.
            201 | 202 => {}
            503 => {
                refused += 1;
                assert_eq!(body["code"], "unavailable", "{body}");
                assert!(!is_ready(&up).await, "refused, and ready");
            }
            _ => panic!("{status} {body}"),
        }
    }
    assert_eq!(refused, REFUSED, "of {}", late.len());

    filler.end();
    let ready = async || is_ready(&up).await.then_some(());
    until(LONG, "the system to be ready", ready).await.unwrap();
    let all = RUNS + late.len();
    for key in &late {
        until(PATIENCE, "a start", async || {
            let (status, body) = start(&up, "busy", key).await;
            (status == 201).then_some(body)
        })
        .await
        .unwrap();
    }
    let all_done = async || {
        let (_, page) = up.get("/runs?status=completed&limit=500").await.ok()?;
        (page["items"].as_array()?.len() == all).then_some(())
    };
    until(LONG, "all runs to be completed", all_done)
        .await
        .unwrap();
    let (_, page) = up.get("/runs?limit=500").await.unwrap();
    let runs = page["items"].as_array().unwrap();
    assert_eq!(runs.len(), all, "one run a key");
    let calls = shop.calls();
    let effects: BTreeSet<_> = calls
        .iter()
        .map(|call| call.header("idempotency-key"))
        .collect();
    assert_eq!(effects.len(), all, "effects at the tool, by key");
    for run in runs {
        let path = format!("/runs/{}/events?limit=100", run["id"].as_str().unwrap());
        let (_, page) = up.get(&path).await.unwrap();
        let items = page["items"].as_array().unwrap();
        let is_result =
            |item: &&Value| item["type"] == "step.succeeded" && item["step"] == "step-02";
        assert_eq!(items.iter().filter(is_result).count(), 1, "{page}");
    }
    // SQLite follows links, and would look where the disk is not.
    let copies = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(up.data_as_it_sees_it().unwrap()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), copies.path().join(entry.file_name())).unwrap();
        }
    }
    assert_eq!(dead_letters(copies.path()).unwrap(), 0);
}
