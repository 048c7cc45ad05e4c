//! Replicas on Postgres: two executors and two schedulers. One of each is stopped for a minute during its work, and
//! then continues.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use holdpoint_testkit::until;
use reqwest::Method;
use rustix::process::Signal;
use sea_orm::{
    ConnectionTrait as _, Database, DatabaseConnection, DatabaseTransaction, Statement,
    TransactionTrait as _,
};
use serde_json::{Value, json};

use crate::fleet::{Api, Ground, Served};
use crate::shop::Shop;
use crate::world::log;

const RUNS: usize = 200;

/// Longer than every lease of the kernel.
const STOPPED_FOR: Duration = Duration::from_secs(60);

const PATIENCE: Duration = Duration::from_secs(120);

async fn start(api: &Api) -> String {
    let (status, run) = api.post("/agents/workload/runs", &json!({})).await;
    assert!(status == 201, "{status} {run}");
    run["id"].as_str().unwrap().to_owned()
}

/// Waits until `count` runs are completed.
async fn completed(api: &Api, count: usize) {
    until(
        PATIENCE,
        &format!("{count} runs are completed"),
        async || {
            let failed = api.get("/runs?status=failed").await;
            assert_eq!(failed["items"], json!([]));
            let page = api.get("/runs?status=completed&limit=500").await;
            let done = page["items"].as_array().map_or(0, Vec::len);
            (done == count).then_some(())
        },
    )
    .await
    .unwrap();
}

/// Ground, 7: a replica that was stopped for a minute continues with old data in memory, and changes nothing that the
/// others have done.
#[tokio::test]
async fn a_stopped_replica_does_no_harm_when_it_continues() {
    let Some(ground) = Ground::new().await else {
        return;
    };
    let executors = [
        ground.serve("executor", &[]).await,
        ground.serve("executor", &[]).await,
    ];
    let schedulers = [
        ground.serve("scheduler", &[]).await,
        ground.serve("scheduler", &[]).await,
    ];
    let _handoff = ground.serve("handoff", &[]).await;
    let gateway = ground
        .serve("gateway", &["--http", "127.0.0.1:0", "--owner-token"])
        .await;
    let _worker = ground.worker().await;
    let api = Api::of(&gateway);
    let shop = Shop::slow(Duration::from_millis(200)).await;
    let call = json!({ "method": "POST", "url": shop.url("/orders"), "idempotent": true });
    let steps = json!([{ "tool": "http_request", "args": call }, { "wait": "3s" }, log("after")]);
    let (status, body) = api
        .post("/agents", &json!({ "agent": "workload", "steps": steps }))
        .await;
    assert_eq!(status, 201, "{body}");

    let runs = join_all((0..RUNS).map(|_| start(&api))).await;
    until(PATIENCE, "half of the calls are under way", async || {
        (shop.calls().len() >= RUNS / 2).then_some(())
    })
    .await
    .unwrap();
    executors[0].signal(Signal::STOP);
    schedulers[0].signal(Signal::STOP);
    let stopped = tokio::time::Instant::now();
    completed(&api, RUNS).await;
    let before: Vec<Value> = join_all(runs.iter().map(|id| history(&api, id))).await;
    // A lease expires only by time.
    tokio::time::sleep_until(stopped + STOPPED_FOR).await;
    executors[0].signal(Signal::CONT);
    schedulers[0].signal(Signal::CONT);
    let later = join_all((0..20).map(|_| start(&api))).await;
    completed(&api, RUNS + later.len()).await;
    let after: Vec<Value> = join_all(runs.iter().map(|id| history(&api, id))).await;
    for ((id, before), after) in runs.iter().zip(before).zip(after) {
        assert_eq!(before, after, "{id}: a final run changes no more");
        check(id, &after);
    }
    // Each run has one key at the tool and hardly any second call, because the workers of the stopped executor lived
    // and kept their leases.
    let mut effects: BTreeMap<String, usize> = BTreeMap::new();
    for call in shop.calls() {
        *effects
            .entry(call.header("idempotency-key").to_owned())
            .or_default() += 1;
    }
    assert_eq!(effects.len(), RUNS + later.len());
    assert!(effects.values().all(|calls| *calls <= 2), "{effects:?}");
    for process in executors.iter().chain(&schedulers) {
        assert!(!process.log().contains("panicked"), "{}", process.log());
    }
}

async fn history(api: &Api, id: &str) -> Value {
    api.get(&format!("/runs/{id}/events?limit=500")).await["items"].clone()
}

/// Checks that results are applied once, waits end once, and numbers have no gaps.
fn check(id: &str, items: &Value) {
    let items = items.as_array().unwrap();
    let count = |kind: &str| items.iter().filter(|item| item["type"] == kind).count();
    let counts = (
        count("step.succeeded"),
        count("run.resumed"),
        count("run.completed"),
    );
    assert_eq!(counts, (2, 1, 1), "{id}: {items:?}");
    for (place, item) in items.iter().enumerate() {
        assert_eq!(item["seq"], place + 1, "{id}");
    }
}

/// A lock on a row of a run, so that a replica waits in the middle of its batch.
struct Barrier {
    db: DatabaseConnection,
    lock: DatabaseTransaction,
}

impl Barrier {
    async fn at(database: &str, run: &str) -> Self {
        let db = Database::connect(database).await.unwrap();
        #[expect(
            clippy::disallowed_methods,
            reason = "it only holds a row, and writes nothing"
        )]
        let lock = db.begin().await.unwrap();
        let id = run.trim_start_matches("run_");
        let held = format!("SELECT id FROM executor.runs WHERE id = '{id}' FOR UPDATE");
        let held = Statement::from_string(db.get_database_backend(), held);
        assert!(lock.query_one_raw(held).await.unwrap().is_some(), "{run}");
        Self { db, lock }
    }

    /// Stops the replica when it waits for the row, and then releases the row.
    async fn stops(self, replica: &Served) {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        let waiting = Statement::from_string(self.db.get_database_backend(), waiting);
        let stands = async || {
            let row = self.db.query_one_raw(waiting.clone()).await.unwrap()?;
            (row.try_get_by_index::<i64>(0).unwrap() > 0).then_some(())
        };
        until(PATIENCE, "it is in the middle of its batch", stands)
            .await
            .unwrap();
        replica.signal(Signal::STOP);
        self.lock.rollback().await.unwrap();
    }
}

/// Ground, 7: a replica is stopped in the middle of an uncommitted batch. Another one takes over, and the batch of the
/// first is lost when it continues.
#[tokio::test]
async fn a_replica_stopped_in_a_batch_does_nothing_twice() {
    let Some(ground) = Ground::new().await else {
        return;
    };
    let one = ground.serve("executor", &[]).await;
    let _scheduler = ground.serve("scheduler", &[]).await;
    let _handoff = ground.serve("handoff", &[]).await;
    let gateway = ground
        .serve("gateway", &["--http", "127.0.0.1:0", "--owner-token"])
        .await;
    let _worker = ground.worker().await;
    let api = Api::of(&gateway);
    let shop = Shop::open().await;
    let call = json!({ "method": "POST", "url": shop.url("/orders") });
    let ask = json!({ "to": "@user.owner", "question": "Order?" });
    let steps = json!([{ "ask": ask }, { "tool": "http_request", "args": call }]);
    let agent = json!({ "agent": "workload", "steps": steps });
    assert_eq!(api.post("/agents", &agent).await.0, 201);
    let run = start(&api).await;
    let path = format!("/runs/{run}");
    let request = until(PATIENCE, "the question is there", async || {
        let (_, page) = api.call(Method::GET, "/requests", &Value::Null).await;
        page["items"][0]["id"].as_str().map(str::to_owned)
    })
    .await
    .unwrap();

    let barrier = Barrier::at(&ground.database, &run).await;
    let respond = format!("/requests/{request}/respond");
    let answer = json!({ "answer": "yes" });
    let respond = api.post(&respond, &answer);
    let stopped = barrier.stops(&one);
    let (answered, ()) = tokio::join!(respond, stopped);
    assert_eq!(answered.0, 200, "{}", answered.1);
    assert_eq!(shop.calls().len(), 0, "nothing was committed");

    let other = ground.serve("executor", &[]).await;
    completed(&api, 1).await;
    let before = history(&api, &run).await;
    one.signal(Signal::CONT);
    // It works again, and its old batch is lost.
    let given_up = async || {
        one.log()
            .contains("database unavailable or busy")
            .then_some(())
    };
    until(PATIENCE, "it has lost its batch", given_up)
        .await
        .unwrap();
    assert_eq!(history(&api, &run).await, before);
    let count = |kind: &str| {
        let items = before.as_array().unwrap().iter();
        items.filter(|item| item["type"] == kind).count()
    };
    assert_eq!((count("input.answered"), count("run.completed")), (1, 1));
    assert_eq!(shop.calls().len(), 1, "one effect at the tool");
    let ended = api.get(&path).await;
    assert_eq!(ended["status"], "completed", "{ended}");
    other.terminate().await;
    let next = start(&api).await;
    let asks = async || {
        let run = api.get(&format!("/runs/{next}")).await;
        (run["status"] == "awaiting_input").then_some(())
    };
    until(PATIENCE, "the first works alone", asks)
        .await
        .unwrap();
    assert!(!one.log().contains("panicked"), "{}", one.log());
}
