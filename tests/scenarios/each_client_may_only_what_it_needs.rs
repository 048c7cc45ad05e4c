//! The server's own permissions, as `holdpoint nats-config` writes them.

use std::path::Path;
use std::sync::{Arc, Mutex};

use async_nats::ConnectOptions;
use futures_util::{FutureExt as _, StreamExt as _};
use holdpoint_bus::Bus;
use holdpoint_contracts::handoff::{DecideRequest, Decision};
use holdpoint_contracts::message::Command as _;
use holdpoint_contracts::scheduler::{SetTimer, SetTimers};
use holdpoint_ids::{HoldId, Workspace};
use holdpoint_testkit::{holdpoint_binary, nats_with_config, until};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::fleet::{Api, Ground};
use crate::world::{PATIENCE, log};

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
    let agent = json!({ "agent": "a", "steps": [
        { "wait": "1s" },
        log("x"),
        { "tool": "create_task", "args": { "title": "Look at it" } },
        { "tool": "update_contact", "args": { "set": { "seen": true } } },
    ] });
    assert_eq!(api.post("/agents", &agent).await.0, 201);
    let (_, run) = api
        .post("/agents/a/runs", &json!({ "contact": { "id": "ann" } }))
        .await;
    let path = format!("/runs/{}", run["id"].as_str().unwrap());
    until(PATIENCE, "the run ends", async || {
        (api.get(&path).await["status"] == "completed").then_some(())
    })
    .await
    .unwrap();
    for process in running.iter().chain([&gateway]) {
        let log = process.log();
        assert!(!log.contains("ermissions violation"), "{log}");
    }
    each_may_what_it_needs_and_no_more(&url, dir.path()).await;
}

/// One client of the bus, as the server knows it by its key, and what it was told of its rights.
struct Probe {
    client: async_nats::Client,
    refused: Arc<Mutex<Vec<String>>>,
}

impl Probe {
    async fn connect(url: &str, dir: &Path, client: &str, name: &str) -> Self {
        let refused = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&refused);
        let client = ConnectOptions::with_nkey(seed(dir, client))
            .name(name)
            .custom_inbox_prefix(format!("_INBOX.{name}"))
            .event_callback(move |event| {
                told.lock().unwrap().push(event.to_string());
                std::future::ready(())
            })
            .connect(url)
            .await
            .unwrap();
        Self { client, refused }
    }

    /// Whether a message to this subject came into a stream. The server says no at once; what it says
    /// is read, so that silence for another reason is not taken for a refusal.
    async fn is_stored(&self, subject: &str) -> bool {
        let ack = self.client.request(subject.to_owned(), "{}".into());
        match tokio::time::timeout(PATIENCE, self.until_refused(subject, ack)).await {
            Ok(stored) => stored,
            Err(_silence) => panic!("{subject}: neither stored nor refused"),
        }
    }

    async fn until_refused(
        &self,
        subject: &str,
        ack: impl Future<Output = Result<async_nats::Message, async_nats::RequestError>>,
    ) -> bool {
        let said_no = until(PATIENCE, "a refusal", async || {
            self.was_refused("Publish", subject).then_some(())
        });
        tokio::select! {
            ack = ack => {
                let payload = ack.unwrap().payload;
                let ack: Value = serde_json::from_slice(&payload).unwrap();
                assert!(ack["seq"].is_u64(), "{subject}: {ack}");
                true
            }
            refused = said_no => {
                refused.unwrap();
                false
            }
        }
    }

    fn was_refused(&self, what: &str, subject: &str) -> bool {
        let refused = self.refused.lock().unwrap();
        let word = format!("{what} to \"{subject}\"");
        let word = word.to_lowercase();
        refused
            .iter()
            .any(|told| told.to_lowercase().contains(&word))
    }

    /// Whether it hears what is said on a subject, by somebody who may say it there.
    async fn hears(&self, filter: &str, speaker: &Self, subject: &str) -> bool {
        let mut heard = self.client.subscribe(filter.to_owned()).await.unwrap();
        self.client.flush().await.unwrap();
        let said = async || {
            let (to, body) = (subject.to_owned(), "{}".into());
            speaker.client.publish(to, body).await.unwrap();
            speaker.client.flush().await.unwrap();
            let hears = heard.next().now_or_never().flatten().is_some();
            let is_refused = self.was_refused("Subscription", filter);
            (hears || is_refused).then_some(hears)
        };
        let hears = until(PATIENCE, "a message or a refusal", said)
            .await
            .unwrap();
        assert!(!speaker.was_refused("Publish", subject), "{subject}");
        hears
    }
}

/// What a worker and a program may not do is refused to the same connection that does what it may.
async fn each_may_what_it_needs_and_no_more(url: &str, dir: &Path) {
    let workspace: Workspace = "default".parse().unwrap();
    let id = HoldId::standalone();
    let decide = DecideRequest {
        id,
        decision: Decision::Approve { comment: None },
        version: None,
    };
    let decide = decide.subject(&workspace);
    let timers = SetTimers {
        owner: "executor".to_owned(),
        timers: vec![SetTimer {
            id: id.to_string(),
            rev: 1,
            due: None,
        }],
    };
    let timers = timers.subject(&workspace);
    let worker = Probe::connect(url, dir, "worker", "worker").await;
    let program = Probe::connect(url, dir, "program-default", "program").await;
    let executor = Probe::connect(url, dir, "executor", "executor").await;

    // What each is for…
    let results = "hp.default.cmd.executor.3.step_results";
    let start = "hp.default.cmd.executor.3.start_run";
    assert!(worker.is_stored(results).await, "a worker reports");
    assert!(program.is_stored(start).await, "a program starts runs");
    assert!(
        executor.is_stored(&timers).await,
        "the executor sets alarms"
    );
    let live = "hp.default.live.executor";
    assert!(worker.hears(live, &executor, live).await);
    let all = "hp.default.live.>";
    assert!(program.hears(all, &executor, live).await);
    // …and what it is not for.
    for (client, name) in [(&worker, "a worker"), (&program, "a program")] {
        for subject in [&decide, &timers] {
            assert!(!client.is_stored(subject).await, "{name}: {subject}");
        }
    }
    assert!(!worker.is_stored(start).await, "a worker starts nothing");
    assert!(
        !program.is_stored(results).await,
        "a program reports nothing"
    );
    let other = "hp.other.cmd.executor.3.start_run";
    assert!(!program.is_stored(other).await, "one workspace");
    let inbox = "_INBOX.gateway.>";
    assert!(!program.hears(inbox, &executor, "_INBOX.gateway.x").await);
    assert!(!worker.hears(all, &executor, live).await, "one service");
    assert!(
        Bus::connect(url, "stranger").await.is_err(),
        "no key, no connection"
    );
}
