//! A rolling upgrade: services of two versions share one bus and one Postgres while 500 runs wait.
//!
//! The test plays the other version. As an older receiver it cannot read desired states of the executor. As a newer
//! sender it publishes unknown fields, verbs and kinds, and stores a run in an unknown state. Nothing is lost, and
//! `readyz` reports unreadable data.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream;
use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use holdpoint_bus::{Bus, PartitionShare};
use holdpoint_contracts::subject::{KEPT_HEADER, REPLY_HEADER};
use holdpoint_testkit::until;
use sea_orm::{ConnectionTrait as _, Database, DatabaseConnection, Statement};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::fleet::{Api, Ground, Served};
use crate::world::log;

const RUNS: usize = 500;

const PATIENCE: Duration = Duration::from_secs(120);

/// Answers everything that is stored for a service as a version that cannot read it.
async fn older_receiver(bus: Bus, stop: CancellationToken) {
    let shares = PartitionShare::of(false).into_iter().map(|share| {
        let (bus, stop) = (bus.clone(), stop.clone());
        async move {
            let mut messages = bus.pull_commands("handoff", share, PATIENCE).await.unwrap();
            while let Some(Some(Ok(message))) = stop.run_until_cancelled(messages.next()).await {
                let refusal = json!({ "problem": {
                    "status": 422, "code": "invalid_body", "detail": "unknown field `newer`",
                } });
                let headers = message.headers.as_ref();
                if let Some(reply) = headers.and_then(|headers| headers.get(REPLY_HEADER)) {
                    let body = refusal.to_string().into();
                    bus.send(reply.to_string(), body).await.unwrap();
                }
                message.ack().await.unwrap();
            }
        }
    });
    join_all(shares).await;
}

/// The readiness of a service.
async fn ready(service: &Served) -> String {
    let url = format!("{}/readyz", service.said["health"].as_str().unwrap());
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = client.get(url).send().await.unwrap();
    answer.text().await.unwrap()
}

/// Publishes as a newer service does, and returns the reply.
async fn newer_sender(bus: &Bus, subject: &str, command: Value) -> Value {
    let context = jetstream::new(bus.client().clone());
    let inbox = bus.client().new_inbox();
    let mut answers = bus.client().subscribe(inbox.clone()).await.unwrap();
    let mut headers = HeaderMap::new();
    headers.insert(REPLY_HEADER, inbox.as_str());
    headers.insert(KEPT_HEADER, "1");
    let body = json!({ "actor": "service:newer", "command": command, "newer": true });
    let stored = context
        .publish_with_headers(subject.to_owned(), headers, body.to_string().into())
        .await
        .unwrap();
    stored.await.unwrap();
    let answer = tokio::time::timeout(PATIENCE, answers.next())
        .await
        .unwrap();
    serde_json::from_slice(&answer.unwrap().payload).unwrap()
}

async fn number(db: &DatabaseConnection, sql: &str) -> i64 {
    let statement = Statement::from_string(db.get_database_backend(), sql);
    let row = db.query_one_raw(statement).await.unwrap().unwrap();
    row.try_get_by_index(0).unwrap()
}

async fn execute(db: &DatabaseConnection, sql: &str) {
    db.execute_unprepared(sql).await.unwrap();
}

async fn start_all(api: &Api) -> Vec<String> {
    let start = async |_: usize| {
        let (status, run) = api.post("/agents/asks/runs", &json!({})).await;
        assert_eq!(status, 201, "{run}");
        run["id"].as_str().unwrap().to_owned()
    };
    let all = stream::iter(0..RUNS).map(start).buffer_unordered(16);
    all.collect().await
}

/// Answers all open requests. Returns their number.
async fn answer_all(api: &Api) -> usize {
    let page = api.get("/requests?status=open&limit=500").await;
    let items = page["items"].as_array().unwrap().iter();
    let ids: Vec<_> = items
        .map(|one| one["id"].as_str().unwrap().to_owned())
        .collect();
    let answer = async |id: String| {
        let path = format!("/requests/{id}/respond");
        let (status, body) = api.post(&path, &json!({ "answer": "yes" })).await;
        assert_eq!(status, 200, "{body}");
    };
    let count = ids.len();
    let all = stream::iter(ids).map(answer).buffer_unordered(16);
    all.collect::<Vec<()>>().await;
    count
}

/// Answers every request once, until all runs are completed.
async fn complete_all(api: &Api) {
    let mut answered = 0;
    let all = async || {
        answered += answer_all(api).await;
        let page = api.get("/runs?status=completed&limit=500").await;
        let done = page["items"].as_array().map_or(0, Vec::len);
        (done == RUNS).then_some(())
    };
    until(PATIENCE, "all runs are completed", all)
        .await
        .unwrap();
    assert_eq!(answered, RUNS);
}

/// Mend, Deliver 5: an older receiver reads no desired state, and a newer sender sends unknown fields and states.
#[tokio::test]
async fn nothing_is_lost_between_two_versions() {
    let Some(ground) = Ground::new().await else {
        return;
    };
    let health = ["--health", "127.0.0.1:0"];
    let _scheduler = ground.serve("scheduler", &[]).await;
    let executor = ground.serve("executor", &health).await;
    let older = ground.serve("handoff", &[]).await;
    let gateway = ground
        .serve("gateway", &["--http", "127.0.0.1:0", "--owner-token"])
        .await;
    let _worker = ground.worker().await;
    let api = Api::of(&gateway);
    older.terminate().await;
    let ask =
        json!({ "ask": { "to": "@user.owner", "question": "Go on?", "options": ["yes", "no"] } });
    let sleeps = json!({ "agent": "sleeps", "steps": [{ "wait": "1 day" }] });
    let asks = json!({ "agent": "asks", "steps": [ask, log("after")] });
    for agent in [&asks, &sleeps] {
        let (status, body) = api.post("/agents", agent).await;
        assert_eq!(status, 201, "{body}");
    }
    let bus = Bus::connect(&ground.nats.url, "player").await.unwrap();
    let stop = CancellationToken::new();
    let player = tokio::spawn(older_receiver(bus.clone(), stop.clone()));
    start_all(&api).await;
    let wanted = format!("{RUNS} desired states were not accepted");
    let is_reported = async || ready(&executor).await.contains(&wanted).then_some(());
    until(PATIENCE, "the waiting states are reported", is_reported)
        .await
        .unwrap();
    stop.cancel();
    player.await.unwrap();

    let handoff = ground.serve("handoff", &health).await;
    newer_sender_is_answered(&bus).await;
    let db = Database::connect(ground.database.as_str()).await.unwrap();
    let (status, sleeper) = api.post("/agents/sleeps/runs", &json!({})).await;
    assert_eq!(status, 201, "{sleeper}");
    let sleeper = sleeper["id"].as_str().unwrap();
    leave_in_a_newer_state(&db, &api, sleeper).await;

    complete_all(&api).await;
    let quiet = async || (!ready(&executor).await.contains("desired")).then_some(());
    until(PATIENCE, "no state waits", quiet).await.unwrap();
    for schema in ["executor", "handoff", "scheduler"] {
        let dead = format!("SELECT count(*) FROM {schema}.dead_letters");
        assert_eq!(number(&db, &dead).await, 0, "{schema}");
    }
    execute(
        &db,
        "UPDATE executor.runs SET state = replace(state, 'hibernating', 'live')",
    )
    .await;
    let run = api.get(&format!("/runs/{sleeper}")).await;
    assert_eq!(run["status"], "waiting", "the newer version continues it");
    for process in [&executor, &handoff] {
        assert!(!process.log().contains("panicked"), "{}", process.log());
    }
}

/// Unknown fields are ignored. An unknown verb or state is refused without a dead letter, because its sender keeps
/// it.
async fn newer_sender_is_answered(bus: &Bus) {
    let hold = "hold_0193aaaabbbb7ccc8dddeeeeeeeeeeee-1";
    let timer = json!({ "id": hold, "rev": 1, "due": "2090-01-01T00:00:00Z", "jitter_ms": 5 });
    for (subject, command, field) in [
        (
            "hp.default.cmd.scheduler.0.set_timers",
            json!({ "owner": "executor", "timers": [timer], "newer": {} }),
            "ok",
        ),
        (
            "hp.default.cmd.handoff.0.set_holds",
            json!({ "owner": "executor", "holds": [{ "id": hold, "rev": 1, "state": "dreamt" }] }),
            "problem",
        ),
        (
            "hp.default.cmd.executor.0.dream",
            json!({ "run": "run_0193aaaabbbb7ccc8dddeeeeeeeeeeee" }),
            "problem",
        ),
    ] {
        let answer = newer_sender(bus, subject, command).await;
        assert!(answer.get(field).is_some(), "{subject}: {answer}");
    }
}

/// A newer replica has stored a run in an unknown state. Lists skip the run, and a read of it fails.
async fn leave_in_a_newer_state(db: &DatabaseConnection, api: &Api, run: &str) {
    let id = run.trim_start_matches("run_");
    let newer = format!(
        "UPDATE executor.runs SET state = replace(state, '\"live\"', '\"hibernating\"') \
         WHERE id = '{id}'"
    );
    execute(db, &newer).await;
    let listed = api.get("/runs?agent=sleeps").await;
    assert_eq!(listed["items"], json!([]), "the list skips it");
    let path = format!("/runs/{run}");
    let (status, body) = api.call(reqwest::Method::GET, &path, &Value::Null).await;
    assert!(status >= 500, "{status} {body}");
}
