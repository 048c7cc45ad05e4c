//! A scheduler on a real NATS server and a SQLite file. The test plays the executor.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::StreamExt;
use holdpoint_bus::{Bus, StreamUse};
use holdpoint_clock::Clock;
use holdpoint_contracts::executor::{self, TimerReply, TimersFired};
use holdpoint_contracts::message::{Envelope, Reply};
use holdpoint_contracts::scheduler::{
    AdvanceClock, AdvancedClock, SetTimer, SetTimerReply, SetTimers,
};
use holdpoint_contracts::{handoff, subject};
use holdpoint_ids::{HoldId, RunId, Workspace};
use holdpoint_kernel::{Deps, RETENTION_DEFAULT};
use holdpoint_store::Location;
use holdpoint_testkit::{TestNats, nats, until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::{KernelRegistry, start};

/// Longer than two sweeps, because only the second one treats a deficit as a loss.
pub(super) const SOON: Duration = Duration::from_secs(40);
pub(super) const DAY_MS: u64 = 86_400_000;

/// A fired timer as the executor received it: id, rev, due time, and the instant of the receipt.
pub(super) type Fired = (String, u64, DateTime<Utc>, DateTime<Utc>);

pub(super) struct Fixture {
    _nats: TestNats,
    _folder: tempfile::TempDir,
    pub(super) store: Location,
    pub(super) bus: Bus,
    pub(super) clock: Clock,
    fired: Arc<Mutex<Vec<Fired>>>,
}

pub(super) struct Running {
    pub(super) kernels: KernelRegistry,
    stop: CancellationToken,
    tracker: TaskTracker,
}

impl Running {
    pub(super) async fn end(self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

pub(super) fn workspace() -> Workspace {
    "acme".parse().unwrap()
}

pub(super) fn hold() -> String {
    let run = RunId::fresh();
    HoldId { run, number: 1 }.to_string()
}

pub(super) fn ms(count: i64) -> TimeDelta {
    TimeDelta::milliseconds(count)
}

/// Sends the executor's reply after its commit, one for each timer.
async fn acknowledge(bus: &Bus, message: &async_nats::jetstream::Message, count: usize) {
    let headers = message.headers.as_ref();
    let Some(reply) = headers.and_then(|headers| headers.get("hp-reply")) else {
        return;
    };
    let replies: Reply<Vec<Reply<TimerReply>>> =
        Reply::Ok(vec![Reply::Ok(TimerReply::Applied); count]);
    let body = serde_json::to_vec(&replies).unwrap();
    bus.send(reply.to_string(), body.into()).await.unwrap();
}

impl Fixture {
    pub(super) async fn with(clock: Clock) -> Self {
        let nats = nats().await.unwrap();
        let bus = Bus::connect(&nats.url, "test").await.unwrap();
        let executor = StreamUse::Commands(executor::SERVICE);
        // The other services create these streams.
        for wanted in [
            executor,
            StreamUse::Commands(handoff::SERVICE),
            StreamUse::Steps,
        ] {
            bus.provide_stream(wanted).await.unwrap();
        }
        let filter = subject::commands_filter(executor::SERVICE);
        let pull = bus.pull(executor, "executor", &filter, SOON);
        let mut messages = pull.await.unwrap();
        let fired = Arc::new(Mutex::new(Vec::new()));
        let (all, now) = (Arc::clone(&fired), clock.clone());
        let replies = bus.clone();
        tokio::spawn(async move {
            while let Some(message) = messages.next().await {
                let Ok(message) = message else { continue };
                let body: Envelope<TimersFired> = serde_json::from_slice(&message.payload).unwrap();
                let timers = body.command.fired.into_iter();
                let timers = timers.map(|it| (it.id.to_string(), it.rev, it.due, now.now()));
                let count = timers.len();
                all.lock().unwrap().extend(timers);
                message.ack().await.unwrap();
                acknowledge(&replies, &message, count).await;
            }
        });
        let folder = tempfile::tempdir().unwrap();
        Self {
            _nats: nats,
            store: Location::Sqlite(folder.path().join("scheduler.db")),
            _folder: folder,
            bus,
            clock,
            fired,
        }
    }

    pub(super) async fn start(&self) -> Running {
        let running = Running {
            kernels: KernelRegistry::default(),
            stop: CancellationToken::new(),
            tracker: TaskTracker::new(),
        };
        let deps = Deps {
            bus: self.bus.clone(),
            clock: self.clock.clone(),
            store: self.store.clone(),
            keys: holdpoint_auth::Secrets::fresh().unwrap().keys().unwrap(),
            kept_for: RETENTION_DEFAULT,
        };
        let kernels = running.kernels.clone();
        let handle = start(
            &deps,
            kernels.clone(),
            running.stop.clone(),
            &running.tracker,
        )
        .await
        .unwrap();
        kernels.add("scheduler", handle.status());
        running
    }

    pub(super) async fn set(&self, timers: Vec<SetTimer>) -> Vec<Reply<SetTimerReply>> {
        let command = SetTimers {
            owner: executor::SERVICE.into(),
            timers,
        };
        let envelope = Envelope::of_service(executor::SERVICE, command);
        self.bus.ask(&workspace(), &envelope).await.unwrap()
    }

    pub(super) async fn set_one(&self, id: &str, rev: u64, due: DateTime<Utc>) -> SetTimerReply {
        let timer = SetTimer {
            id: id.into(),
            rev,
            due: Some(due),
        };
        match self.set(vec![timer]).await.remove(0) {
            Reply::Ok(reply) => reply,
            Reply::Problem(problem) => panic!("{problem}"),
        }
    }

    pub(super) async fn advance(&self, by_ms: u64, settle_ms: u64) -> AdvancedClock {
        let command = AdvanceClock { by_ms, settle_ms };
        self.bus.advance_clock(&command).await.unwrap()
    }

    pub(super) fn fired(&self) -> Vec<Fired> {
        self.fired.lock().unwrap().clone()
    }

    pub(super) async fn wait_for_fired(&self, count: usize) -> Vec<Fired> {
        let enough = async || Some(self.fired()).filter(|fired| fired.len() >= count);
        until(SOON, "timers to fire", enough).await.unwrap()
    }
}
