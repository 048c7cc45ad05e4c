//! The whole service on a real bus that goes away.

mod contact_search;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use holdpoint_auth::Secrets;
use holdpoint_bus::Bus;
use holdpoint_clock::Clock;
use holdpoint_contracts::executor::{ApplyAgent, GetRun, StartRun};
use holdpoint_contracts::message::Envelope;
use holdpoint_contracts::run::{ActionResult, RunStatus};
use holdpoint_contracts::steps::StepDispatch;
use holdpoint_ids::{RunId, ToolName, Workspace};
use holdpoint_kernel::{Deps, RETENTION_DEFAULT};
use holdpoint_store::{Location, open_readers};
use holdpoint_testkit::{NatsProcess, until};
use sea_orm::{ConnectionTrait, DatabaseConnection, Statement};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::InlineTools;

/// Steps that no worker takes are left to the workers for some seconds each.
const PATIENCE: Duration = Duration::from_secs(60);

/// More than one page of queued steps.
const MAILS: i64 = 1_001;

/// Counts its calls.
struct Log(AtomicUsize);

impl InlineTools for Log {
    fn knows(&self, tool: &ToolName) -> bool {
        ["log", "send_email"].contains(&tool.as_str())
    }

    fn call<'c>(&'c self, _: &'c StepDispatch) -> BoxFuture<'c, (ActionResult, Option<String>)> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let result = ActionResult {
            success: true,
            description: "Logged".to_owned(),
            error: None,
            data: json!({}),
            duration_ms: 0,
        };
        async move { (result, None) }.boxed()
    }
}

async fn count(db: &DatabaseConnection, rows: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {rows}");
    let statement = Statement::from_string(db.get_database_backend(), sql);
    let row = db.query_one_raw(statement).await.unwrap().unwrap();
    row.try_get_by_index(0).unwrap()
}

/// S2-R7: the bus is away: idempotent built-in steps of a stored run go on inside the executor, round
/// after round, through the same rows, and are marked so; no step runs twice when the bus is back.
///
/// Mend B-9: more queued steps than one page that may not run there hold up no other.
#[tokio::test]
async fn a_stored_run_completes_inline_while_the_bus_is_away() {
    let mut nats = NatsProcess::start("").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let bus = Bus::connect(&nats.url, "test").await.unwrap();
    let deps = Deps {
        bus: bus.clone(),
        clock: Clock::system(),
        store: Location::Sqlite(folder.path().join("executor.db")),
        keys: Secrets::fresh().unwrap().keys().unwrap(),
        kept_for: RETENTION_DEFAULT,
    };
    let (stop, tracker) = (CancellationToken::new(), TaskTracker::new());
    let tools = Arc::new(Log(AtomicUsize::new(0)));
    let inline: Arc<dyn InlineTools> = Arc::clone(&tools) as _;
    let service = crate::start(&deps, Some(inline), stop.clone(), &tracker);
    drop(service.await.unwrap());

    let acme: Workspace = "acme".parse().unwrap();
    let step = |message: &str| json!({ "tool": "log", "args": { "message": message } });
    let steps = ["one", "two", "three"].map(step);
    let apply = ApplyAgent {
        agent: "talks".parse().unwrap(),
        text: json!({ "agent": "talks", "steps": steps }).to_string(),
    };
    let apply = Envelope::of_service("test", apply);
    bus.ask(&acme, &apply).await.unwrap();
    let mail = json!({ "to": "a@b.example", "subject": "x", "body": "y" });
    let writes = json!({ "agent": "writes", "steps": [{ "tool": "send_email", "args": mail }] });
    let (agent, text) = ("writes".parse().unwrap(), writes.to_string());
    let apply = ApplyAgent { agent, text };
    let apply = Envelope::of_service("test", apply);
    bus.ask(&acme, &apply).await.unwrap();
    let start = async |agent: &str| {
        let run = RunId::fresh();
        let start = StartRun {
            run,
            agent: agent.parse().unwrap(),
            input: json!({}),
            contact: None,
            labels: std::collections::BTreeMap::new(),
        };
        let start = Envelope::of_service("test", start);
        bus.ask(&acme, &start).await.unwrap();
        run
    };
    join_all((0..MAILS).map(|_| start("writes"))).await;
    let run = start("talks").await;
    nats.stop().await.unwrap();

    let db = open_readers(&deps.store, 1).await.unwrap();
    let completed =
        async || (count(&db, "runs WHERE status = 'completed'").await == 1).then_some(());
    until(PATIENCE, "the run to complete without a bus", completed)
        .await
        .unwrap();
    assert!(!bus.is_connected());
    assert!(count(&db, "outbox").await > 0, "it waits for the bus");
    let waits = "steps WHERE tool = 'send_email' AND status = 'queued'";
    assert_eq!(count(&db, waits).await, MAILS, "a mail may not go twice");

    nats.go_on().await.unwrap();
    let sent = async || (count(&db, "outbox").await == 0).then_some(());
    until(PATIENCE, "the outbox to be published", sent)
        .await
        .unwrap();
    let view = bus.query(&acme, &GetRun::of(run)).await.unwrap();
    assert_eq!(view.status, RunStatus::Completed);
    assert_eq!(view.steps.len(), 3);
    assert!(view.steps.iter().all(|step| step.inline), "{view:?}");
    assert_eq!(tools.0.load(Ordering::SeqCst), 3);
    stop.cancel();
    tracker.close();
    tracker.wait().await;
}
