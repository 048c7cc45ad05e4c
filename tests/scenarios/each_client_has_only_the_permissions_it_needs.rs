//! The permissions of the NATS server as `holdpoint nats-config` writes them.

mod rights;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::ConnectOptions;
use futures_util::StreamExt as _;
use holdpoint_bus::{Access, Bus, Outgoing, PartitionShare, StreamUse};
use holdpoint_contracts::subject::Lane;
use holdpoint_testkit::{TestNats, holdpoint_binary, nats_with_config, until};
use serde_json::json;
use tokio::process::Command;

use crate::fleet::{Api, Ground};
use crate::world::{PATIENCE, log};

fn seed(dir: &Path, client: &str) -> String {
    let text = std::fs::read_to_string(dir.join(format!("{client}.seed")));
    text.unwrap().trim().to_owned()
}

/// Writes keys and a configuration for two workspaces and two workers, and starts a server with it.
async fn configured(dir: &Path) -> TestNats {
    let status = Command::new(holdpoint_binary().unwrap())
        .args(["nats-config", "--program", "default", "--program", "other"])
        .args(["--worker", "emea", "--listen", "0.0.0.0:4222"])
        .args(["--store", "/data", "--out"])
        .arg(dir)
        .status()
        .await
        .unwrap();
    assert!(status.success());
    let config = std::fs::read_to_string(dir.join("nats.conf")).unwrap();
    nats_with_config(&config).await.unwrap()
}

/// The whole system runs with the permissions, and no client can publish for another.
#[tokio::test]
async fn no_client_can_publish_for_another() {
    let dir = tempfile::tempdir().unwrap();
    let nats = configured(dir.path()).await;
    let mut ground = Ground::on_sqlite().await;
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
    let worker = ground.worker_as(&seed(dir.path(), "worker")).await;
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
    for process in running.iter().chain([&gateway, &worker]) {
        let log = process.log();
        assert!(!log.contains("ermissions violation"), "{log}");
    }
}

/// Mend A-C1, A-H1: every verb of the JetStream API and every subject of the catalogue is tried with every key. The
/// expectations are written here and not taken from the code that writes the configuration.
#[tokio::test]
async fn every_verb_and_subject_is_tried_with_every_key() {
    let dir = tempfile::tempdir().unwrap();
    let nats = configured(dir.path()).await;
    each_does_what_it_is_for(&nats.url, dir.path()).await;
    let subjects = subjects();
    assert!(subjects.len() > 300, "{}", subjects.len());
    let mut probes = Vec::new();
    for key in KEYS {
        probes.push((key, Probe::connect(&nats.url, dir.path(), key).await));
    }
    for (key, probe) in &probes {
        for chunk in subjects.chunks(EVENTS_AT_ONCE) {
            let refused = probe.refused_of(chunk).await;
            for subject in chunk {
                let expected = rights::may_publish(key, subject);
                let may = !refused.contains(subject);
                assert_eq!(may, expected, "{key} publishes {subject}");
            }
        }
        let inboxes = probes.iter().map(|(_, other)| other.inboxes.clone() + ".>");
        let filters: Vec<_> = rights::filters().into_iter().chain(inboxes).collect();
        let refused = probe.refused_filters(&filters).await;
        for filter in &filters {
            let is_own = *filter == format!("{}.>", probe.inboxes);
            let expected = is_own || rights::may_hear(key, filter);
            let may = !refused.contains(filter);
            assert_eq!(may, expected, "{key} subscribes to {filter}");
        }
    }
    let stranger = Bus::connect(&nats.url, "stranger").await;
    assert!(stranger.is_err(), "a connection needs a key");
}

/// The positive control: streams and queues are created, steps taken and commands stored.
async fn each_does_what_it_is_for(url: &str, dir: &Path) {
    let connect = async |key: &str| {
        let access = Access {
            seed: Some(seed(dir, key)),
            ..Access::default()
        };
        Bus::connect_with(url, key, &access).await.unwrap()
    };
    let executor = connect("executor").await;
    for service in ["executor", "scheduler", "handoff", "notification"] {
        let bus = connect(service).await;
        let commands = StreamUse::Commands(service);
        bus.provide_stream(commands).await.unwrap();
        bus.remove_other_shares(service, &PartitionShare::of(true))
            .await
            .unwrap();
        let ack_wait = Duration::from_secs(5);
        let pulled = bus
            .pull_commands(service, PartitionShare::All, ack_wait)
            .await;
        drop(pulled.unwrap());
    }
    connect("scheduler")
        .await
        .provide_stream(StreamUse::Timers)
        .await
        .unwrap();
    executor.provide_stream(StreamUse::Steps).await.unwrap();
    for lane in Lane::ALL {
        executor.provide_queue("log", lane).await.unwrap();
    }
    for key in ["worker", "worker-emea"] {
        let step = Outgoing::json("hp.default.steps.log.overflow".to_owned(), &json!({}));
        executor.publish_all(vec![step.unwrap()]).await.unwrap();
        let worker = connect(key).await;
        let refused = worker.provide_stream(StreamUse::Steps).await;
        assert!(refused.is_err(), "a worker creates no stream");
        let queue = worker.queue("log", Lane::Overflow).await.unwrap();
        let mut taken = queue.fetch().max_messages(1).messages().await.unwrap();
        let message = taken.next().await.unwrap().unwrap();
        message.double_ack().await.unwrap();
        assert_eq!(executor.stored(StreamUse::Steps).await.unwrap(), 0);
    }
    let start = Outgoing::json("hp.default.cmd.executor.3.start_run".to_owned(), &json!({}));
    let program = connect("program-default").await;
    program.publish_all(vec![start.unwrap()]).await.unwrap();
}

/// Every kind of key, by the name of its file.
const KEYS: [&str; 9] = [
    "executor",
    "scheduler",
    "handoff",
    "notification",
    "gateway",
    "worker",
    "worker-emea",
    "program-default",
    "program-other",
];

/// Refusals that are tried at once. The client drops further ones.
const EVENTS_AT_ONCE: usize = 40;

/// A subject that no key may publish. Its refusal comes last, after those of all others.
const MARKER: &str = "hp.marker.of.nobody";

/// Every verb of the JetStream API for every stream, and every subject of `docs/messages.md`.
fn subjects() -> Vec<String> {
    let mut subjects = BTreeSet::new();
    for stream in rights::STREAMS.map(|(stream, _owner)| stream) {
        subjects.extend(rights::API.map(|verb| verb.replace("{}", stream)));
    }
    subjects.extend(rights::SERVER_API.map(str::to_owned));
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/messages.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let named = docs.split('`').filter(|word| word.starts_with("hp."));
    let named: Vec<_> = named
        .filter(|word| !word.contains(['*', '>', ' ']))
        .collect();
    for workspace in ["default", "other", "sys"] {
        subjects.extend(named.iter().map(|subject| {
            subject
                .replace("{workspace}", workspace)
                .replace("{p}", "3")
                .replace("{queue}", "log")
                .replace("{shard}", "0")
                .replace("{second}", "1000")
                .replace("{node}", "n")
        }));
    }
    assert!(subjects.iter().all(|subject| !subject.contains('{')));
    subjects.into_iter().collect()
}

/// One client of the bus with a key, and the permission errors that it received.
struct Probe {
    client: async_nats::Client,
    inboxes: String,
    refused: Arc<Mutex<Vec<String>>>,
}

impl Probe {
    async fn connect(url: &str, dir: &Path, key: &str) -> Self {
        let refused = Arc::new(Mutex::new(Vec::new()));
        let errors = Arc::clone(&refused);
        let seed = seed(dir, key);
        let pair = nkeys::KeyPair::from_seed(&seed).unwrap();
        let inboxes = format!("_INBOX.{}", pair.public_key());
        let client = ConnectOptions::with_nkey(seed)
            .name(key)
            .custom_inbox_prefix(inboxes.clone())
            .event_callback(move |event| {
                errors.lock().unwrap().push(event.to_string());
                std::future::ready(())
            })
            .connect(url)
            .await
            .unwrap();
        Self {
            client,
            inboxes,
            refused,
        }
    }

    /// The subjects that the server does not let it publish.
    async fn refused_of(&self, subjects: &[String]) -> BTreeSet<String> {
        for subject in subjects {
            let (to, body) = (subject.clone(), "{}".into());
            self.client.publish(to, body).await.unwrap();
        }
        self.judged("publish").await
    }

    /// The filters that the server does not let it subscribe to.
    async fn refused_filters(&self, filters: &[String]) -> BTreeSet<String> {
        let mut heard = Vec::new();
        for filter in filters {
            heard.push(self.client.subscribe(filter.clone()).await.unwrap());
        }
        self.judged("subscription").await
    }

    /// The refusals until the refusal of the marker.
    async fn judged(&self, what: &str) -> BTreeSet<String> {
        self.client.publish(MARKER, "{}".into()).await.unwrap();
        let is_over = async || {
            let errors = self.refused.lock().unwrap();
            errors.iter().any(|one| one.contains(MARKER)).then_some(())
        };
        until(PATIENCE, "the server's last refusal", is_over)
            .await
            .unwrap();
        let errors = std::mem::take(&mut *self.refused.lock().unwrap());
        let of_kind = errors
            .iter()
            .filter(|one| one.to_lowercase().contains(what));
        let subjects = of_kind.filter_map(|one| one.split('"').nth(1));
        subjects
            .map(str::to_owned)
            .filter(|one| one != MARKER)
            .collect()
    }
}
