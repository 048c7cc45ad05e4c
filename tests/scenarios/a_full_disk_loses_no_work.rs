//! The disk of the tables or of JetStream is really full. Nothing is lost or done twice, callers get an error, and
//! everything continues once there is room.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::future::join_all;
use holdpoint_testkit::{Up, UpOptions, postgres, until};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::shop::Shop;
use crate::world::{PATIENCE, dead_letters, log};

/// Bytes that `up` needs at its start, and some more.
const DISK_BYTES: u64 = 24 << 20;

/// Runs in progress when the disk becomes full.
const RUNS: usize = 20;

/// Refused starts before there is room again. Each is retried as long as a caller waits.
const REFUSED: usize = 3;

/// Runs for which there may still be room.
const RUNS_MAX: usize = 400;

/// Runs that are started while the bus refuses.
const LATE: usize = 5;

/// `up` restarts a silent bus only after a while.
const LONG: Duration = Duration::from_secs(120);

/// A file that takes all free bytes, and those that become free later.
struct Filler {
    file: PathBuf,
    is_over: Arc<AtomicBool>,
    filling: JoinHandle<()>,
}

impl Filler {
    /// Returns when no byte is free.
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

/// A system on a small disk, with runs that wait and work.
struct FullDiskSystem {
    up: Up,
    shop: Shop,
    /// The idempotency keys of the runs.
    keys: Vec<String>,
}

impl FullDiskSystem {
    /// Its tables are on the small disk, too, unless `tables` names a database.
    async fn begin(tables: Option<&str>) -> Self {
        drop(rustls::crypto::ring::default_provider().install_default());
        let shop = Shop::slow(Duration::from_millis(500)).await;
        let words = tables.map(|url| ["--database-url".to_owned(), url.to_owned()]);
        let options = UpOptions {
            disk_bytes: Some(DISK_BYTES),
            args: words.into_iter().flatten().collect(),
            ..UpOptions::default()
        };
        let up = Up::start(options).await.unwrap();
        let call = json!({ "method": "POST", "url": shop.url("/orders"), "idempotent": true });
        let work = json!({ "tool": "http_request", "args": call });
        let steps = json!([{ "wait": "3s" }, work, { "wait": "1s" }, log("after")]);
        let agent = json!({ "agent": "busy", "steps": steps });
        let (status, body) = up.post("/agents", &agent).await.unwrap();
        assert_eq!(status, 201, "{body}");
        let keys: Vec<_> = (0..RUNS).map(|n| format!("run-{n}")).collect();
        let system = Self { up, shop, keys };
        let started = join_all(system.keys.iter().map(|key| system.start(key))).await;
        assert!(started.iter().all(|(status, _)| *status == 201));
        system
    }

    /// Uses a new key for each start, so that a refused caller can retry without a second run.
    async fn start(&self, key: &str) -> (u16, Value) {
        let path = "/agents/busy/runs";
        self.up.post_under(key, path, &json!({})).await.unwrap()
    }

    async fn start_one_more(&mut self) -> (u16, Value) {
        let key = format!("late-{}", self.keys.len());
        let answer = self.start(&key).await;
        self.keys.push(key);
        answer
    }

    async fn fill(&self) -> Filler {
        Filler::begin(self.up.data_as_it_sees_it().unwrap().join("filler")).await
    }

    /// The reason in `/readyz`. `None`: it is ready.
    async fn lacks(&self) -> Option<String> {
        let answer = reqwest::get(format!("{}/readyz", self.up.url)).await;
        let answer = answer.unwrap();
        let is_ready = answer.status().is_success();
        let text = answer.text().await.unwrap();
        (!is_ready).then_some(text)
    }

    /// Frees the disk and counts effects at the tool and applied results.
    async fn goes_on(&self) {
        let is_ready = async || self.lacks().await.is_none().then_some(());
        until(LONG, "the system to be ready", is_ready)
            .await
            .unwrap();
        for key in &self.keys {
            until(PATIENCE, "a start", async || {
                let (status, body) = self.start(key).await;
                (status == 201).then_some(body)
            })
            .await
            .unwrap();
        }
        let all = self.keys.len();
        let all_done = async || {
            let (_, page) = self.up.get("/runs?status=completed&limit=500").await.ok()?;
            (page["items"].as_array()?.len() == all).then_some(())
        };
        until(LONG, "all runs to be completed", all_done)
            .await
            .unwrap();
        let (_, page) = self.up.get("/runs?limit=500").await.unwrap();
        let runs = page["items"].as_array().unwrap();
        assert_eq!(runs.len(), all, "one run a key");
        let calls = self.shop.calls();
        let keys = calls.iter().map(|call| call.header("idempotency-key"));
        let effects: BTreeSet<_> = keys.collect();
        assert_eq!(effects.len(), all, "effects at the tool, by key");
        // A key has a second call if its lease or result could not be stored.
        assert!(calls.len() <= 2 * all, "{} calls", calls.len());
        for run in runs {
            assert_eq!(self.results_of(run["id"].as_str().unwrap()).await, 1);
        }
    }

    /// Results of the tool that were applied to a run.
    async fn results_of(&self, run: &str) -> usize {
        let path = format!("/runs/{run}/events?limit=100");
        let (_, page) = self.up.get(&path).await.unwrap();
        let items = page["items"].as_array().unwrap();
        let is_result =
            |item: &&Value| item["type"] == "step.succeeded" && item["step"] == "step-02";
        items.iter().filter(is_result).count()
    }

    /// The process of the bus.
    fn bus(&self) -> String {
        let data = self.up.data_as_it_sees_it().unwrap();
        std::fs::read_to_string(data.join("nats-server.pid")).unwrap()
    }
}

/// Issue Ground, "disk full for SQLite": a small disk is filled to the last byte while runs wait and work. A refused
/// caller gets an error, and no caller gets the id of a run that is not stored.
#[tokio::test]
async fn a_full_disk_of_the_tables_loses_no_work() {
    if !Up::can_have_a_disk().await.unwrap() {
        return;
    }
    let mut system = FullDiskSystem::begin(None).await;
    let filler = system.fill().await;
    let mut refused = 0;
    while refused < REFUSED && system.keys.len() < RUNS_MAX {
        match system.start_one_more().await {
            // The log of SQLite still had room for this start.
            (201 | 202, _) => {}
            (503, body) => {
                refused += 1;
                assert_eq!(body["code"], "unavailable", "{body}");
                assert!(
                    system.lacks().await.is_some(),
                    "it refuses and is still ready"
                );
            }
            (status, body) => panic!("{status} {body}"),
        }
    }
    assert_eq!(refused, REFUSED, "of {}", system.keys.len());
    filler.end();
    system.goes_on().await;
    // SQLite resolves links, and would look outside of the disk.
    let copies = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(system.up.data_as_it_sees_it().unwrap()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), copies.path().join(entry.file_name())).unwrap();
        }
    }
    assert_eq!(dead_letters(copies.path()).await.unwrap(), 0);
}

/// The same for JetStream, with tables on another disk. Commands are still handled and answered. A server that has
/// met a full disk refuses until `up` restarts it.
#[tokio::test]
async fn a_full_disk_of_the_bus_loses_no_work() {
    if !Up::can_have_a_disk().await.unwrap() {
        return;
    }
    let Some(postgres) = postgres().await.unwrap() else {
        return;
    };
    let mut system = FullDiskSystem::begin(Some(&postgres.url)).await;
    let before = system.bus();
    let filler = system.fill().await;
    let bus_refuses = async || system.lacks().await?.contains("JetStream").then_some(());
    until(PATIENCE, "the bus to refuse", bus_refuses)
        .await
        .unwrap();
    for _ in 0..LATE {
        let (status, body) = system.start_one_more().await;
        assert_eq!(status, 201, "{body}");
    }
    assert_eq!(system.bus(), before, "there is no room yet");
    filler.end();
    system.goes_on().await;
    assert_ne!(system.bus(), before, "restarted");
}
