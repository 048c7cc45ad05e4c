//! The loop on a real SQLite file and a real NATS server, around the smallest of services.

mod atomic_messages;
mod commit_errors;
mod counter;
mod dead_letters;
mod deferred_writes;
mod delayed_replies;
mod desired_states;
mod inboxes;
mod lost_commit;
mod outages;
mod replicas;
mod sweeps;
mod unreadable;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use holdpoint_bus::{Bus, Outgoing, StreamUse};
use holdpoint_clock::Clock;
use holdpoint_contracts::message::{Actor, Command, Envelope, IdempotencyKey};
use holdpoint_contracts::problem::Problem;
use holdpoint_store::{Location, migrate, open_readers};
use holdpoint_testkit::{TestNats, until};
use sea_orm::{ConnectionTrait, DatabaseConnection, Statement};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::counter::{Add, Count, Counter, Input, acme};
use crate::{Deps, Handle, RETENTION_DEFAULT, start};

const PATIENCE: Duration = Duration::from_secs(20);

/// A server, a file, and a way to look into both.
struct World {
    deps: Deps,
    db: DatabaseConnection,
    /// None: the test holds it.
    _nats: Option<TestNats>,
    _dir: TempDir,
}

/// A running kernel.
struct Kernel {
    handle: Handle<Counter>,
    stop: CancellationToken,
    tracker: TaskTracker,
}

impl World {
    async fn new() -> Self {
        let nats = holdpoint_testkit::nats().await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let store = Location::Sqlite(dir.path().join("counter.db"));
        Self::on(nats, store, dir).await
    }

    async fn on(nats: TestNats, store: Location, dir: TempDir) -> Self {
        let mut world = Self::at(&nats.url, store, dir).await;
        world._nats = Some(nats);
        world
    }

    async fn at(url: &str, store: Location, dir: TempDir) -> Self {
        // For the kernel's own tables; the rest of them is not looked at.
        migrate::<holdpoint_migrations::scheduler::Migrator>(&store)
            .await
            .unwrap();
        let db = open_readers(&store, 2).await.unwrap();
        db.execute_unprepared(counter::TABLE).await.unwrap();
        let bus = Bus::connect(url, "test").await.unwrap();
        let clock = Clock::standing_at("2026-03-02T09:00:00Z".parse().unwrap());
        Self {
            deps: Deps {
                bus,
                clock,
                store,
                keys: holdpoint_auth::Secrets::fresh().unwrap().keys().unwrap(),
                kept_for: RETENTION_DEFAULT,
            },
            db,
            _nats: None,
            _dir: dir,
        }
    }

    /// With the stream that the counter publishes to.
    async fn with_stream() -> Self {
        let world = Self::new().await;
        world
            .deps
            .bus
            .provide_stream(StreamUse::Steps)
            .await
            .unwrap();
        world
    }

    async fn start(&self) -> Kernel {
        start_on(&self.deps).await
    }

    async fn add(
        &self,
        name: &str,
        by: i64,
        key: Option<IdempotencyKey>,
    ) -> Result<Count, Problem> {
        self.deps.bus.ask(&acme(), &envelope(name, by, key)).await
    }

    /// Stores commands, as a sender does whose request was not answered.
    async fn publish(&self, commands: &[(&str, i64)]) {
        let stored = commands.iter().map(|(name, by)| {
            let envelope = envelope(name, *by, None);
            Outgoing::json(envelope.command.subject(&acme()), &envelope).unwrap()
        });
        self.deps.bus.publish_all(stored.collect()).await.unwrap();
    }

    async fn rows(&self, sql: &str) -> Vec<(String, i64)> {
        let statement = Statement::from_string(self.db.get_database_backend(), sql);
        let rows = self.db.query_all_raw(statement).await.unwrap();
        let read = |row: &sea_orm::QueryResult| {
            let name = row.try_get_by_index(0).unwrap();
            (name, row.try_get_by_index(1).unwrap())
        };
        rows.iter().map(read).collect()
    }

    async fn counts(&self) -> BTreeMap<String, i64> {
        let rows = self.rows("SELECT name, value FROM counters").await;
        rows.into_iter().collect()
    }

    async fn number_of(&self, table: &str) -> i64 {
        self.rows(&format!("SELECT '', count(*) FROM {table}"))
            .await[0]
            .1
    }

    /// Waits until every stored command is acked.
    async fn all_acked(&self) {
        let lookup = async || {
            let left = self.deps.bus.stored(StreamUse::Commands("counter")).await;
            left.is_ok_and(|left| left == 0).then_some(())
        };
        until(PATIENCE, "all commands to be acked", lookup)
            .await
            .unwrap();
    }
}

async fn start_on(deps: &Deps) -> Kernel {
    let (stop, tracker) = (CancellationToken::new(), TaskTracker::new());
    let handle = start(deps, Arc::new(Counter), stop.clone(), &tracker)
        .await
        .unwrap();
    Kernel {
        handle,
        stop,
        tracker,
    }
}

impl Kernel {
    async fn stop(self) {
        self.stop.cancel();
        self.tracker.close();
        drop(self.handle);
        self.tracker.wait().await;
    }
}

fn envelope(name: &str, by: i64, key: Option<IdempotencyKey>) -> Envelope<Add> {
    Envelope {
        actor: Actor("owner".to_owned()),
        assertion: None,
        key,
        command: Add {
            name: name.to_owned(),
            by,
        },
    }
}

fn key(key: &str, digest: &str) -> Option<IdempotencyKey> {
    Some(IdempotencyKey {
        key: key.to_owned(),
        digest: digest.to_owned(),
    })
}

fn counts(pairs: &[(&str, i64)]) -> BTreeMap<String, i64> {
    let pairs = pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), *value));
    pairs.collect()
}

#[tokio::test]
async fn a_core_request_is_answered_after_the_commit() {
    let world = World::with_stream().await;
    let kernel = world.start().await;
    assert_eq!(world.add("a", 3, None).await.unwrap().value, 3);
    assert_eq!(world.counts().await, counts(&[("a", 3)]));
    assert_eq!(world.add("a", 4, None).await.unwrap().value, 7);
    let refused = world.add("a", 0, None).await.unwrap_err();
    assert_eq!((refused.status, refused.code.as_str()), (422, "zero"));
    assert_eq!(
        world.counts().await,
        counts(&[("a", 7)]),
        "a refusal changes nothing"
    );
    kernel.stop().await;
}

#[tokio::test]
async fn a_stored_command_is_applied_published_and_acked() {
    let world = World::with_stream().await;
    let kernel = world.start().await;
    world.publish(&[("a", 3), ("b", 4), ("a", 5)]).await;
    world.all_acked().await;
    assert_eq!(world.counts().await, counts(&[("a", 8), ("b", 4)]));
    assert_eq!(world.deps.bus.stored(StreamUse::Steps).await.unwrap(), 3);
    kernel.stop().await;
    assert_eq!(
        world.number_of("outbox").await,
        0,
        "forgotten once published"
    );
}

#[tokio::test]
async fn the_same_key_is_done_once_and_another_body_is_refused() {
    let world = World::with_stream().await;
    let kernel = world.start().await;
    // At the same time: also within one batch.
    let (first, second) = tokio::join!(
        world.add("a", 3, key("k", "three")),
        world.add("a", 3, key("k", "three"))
    );
    assert_eq!((first.unwrap().value, second.unwrap().value), (3, 3));
    assert_eq!(world.add("a", 3, key("k", "three")).await.unwrap().value, 3);
    let other = world.add("a", 4, key("k", "four")).await.unwrap_err();
    assert_eq!(
        (other.status, other.code.as_str()),
        (422, "idempotency_key_reused")
    );
    assert_eq!(world.counts().await, counts(&[("a", 3)]));
    // What was refused may be tried again under its key.
    world.add("b", 0, key("l", "b")).await.unwrap_err();
    assert_eq!(world.add("b", 1, key("l", "b")).await.unwrap().value, 1);
    kernel.stop().await;
}

#[tokio::test]
async fn only_the_poisonous_command_of_a_batch_becomes_a_dead_letter() {
    let world = World::with_stream().await;
    let commands = StreamUse::Commands("counter");
    world.deps.bus.provide_stream(commands).await.unwrap();
    // Stored before the start, so that they come as one batch.
    let stored = [("a", 1), ("b", 2), (counter::POISON, 1), ("a", 3), ("c", 4)];
    world.publish(&stored).await;
    let kernel = world.start().await;
    world.all_acked().await;
    assert_eq!(
        world.counts().await,
        counts(&[("a", 4), ("b", 2), ("c", 4)])
    );
    let dead = world
        .rows("SELECT subject || reason, 1 FROM dead_letters")
        .await;
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert!(
        dead[0].0.contains(".cmd.counter.") && dead[0].0.contains("poison"),
        "{dead:?}"
    );
    let error = world.add(counter::POISON, 1, None).await.unwrap_err();
    assert_eq!(error.status, 500, "the caller gets a problem");
    kernel.stop().await;
}

/// As a crash leaves it: committed, and not published for want of a stream.
#[tokio::test]
async fn the_next_kernel_publishes_the_outbox_of_a_dead_one() {
    let world = World::new().await;
    // A runtime of its own can be ended without a last word.
    let mortal = Runtime::new().unwrap();
    let deps = world.deps.clone();
    let kernel = mortal
        .spawn(async move { start_on(&deps).await })
        .await
        .unwrap();
    world.publish(&[("a", 3)]).await;
    let kept = async || (world.number_of("outbox").await == 1).then_some(());
    until(PATIENCE, "the commit", kept).await.unwrap();
    assert_eq!(world.counts().await, counts(&[("a", 3)]));
    drop(kernel);
    mortal.shutdown_background();

    world
        .deps
        .bus
        .provide_stream(StreamUse::Steps)
        .await
        .unwrap();
    let kernel = world.start().await;
    let published = async || {
        let stored = world.deps.bus.stored(StreamUse::Steps).await;
        (stored.unwrap() == 1).then_some(())
    };
    until(
        PATIENCE,
        "the outbox of the dead kernel to be published",
        published,
    )
    .await
    .unwrap();
    kernel.stop().await;
    assert_eq!(world.counts().await["a"], 3);
}

#[tokio::test]
async fn inputs_of_a_batch_are_decided_in_order() {
    let world = World::with_stream().await;
    let kernel = world.start().await;
    let add = |name: &str, by| Input {
        name: name.to_owned(),
        by,
    };
    let inputs = vec![
        add("a", 1),
        add("b", 10),
        add("a", 2),
        add("b", 0),
        add("b", 20),
    ];
    assert!(kernel.handle.submit(inputs).await);
    assert_eq!(world.counts().await, counts(&[("a", 3), ("b", 30)]));
    let versions = world.rows("SELECT name, version FROM counters").await;
    assert!(
        versions.iter().all(|(_, version)| *version == 2),
        "{versions:?}"
    );
    kernel.stop().await;
}

#[tokio::test]
async fn a_stopping_kernel_finishes_received_messages() {
    let world = World::with_stream().await;
    let kernel = world.start().await;
    let many: Vec<_> = (0..200).map(|_| ("a", 1)).collect();
    world.publish(&many).await;
    kernel.stop().await;
    let done = world.counts().await.get("a").copied().unwrap_or(0);
    let done = u64::try_from(done).unwrap();
    let published = world.deps.bus.stored(StreamUse::Steps).await.unwrap();
    assert_eq!(done, published, "all that is committed is out");
    assert_eq!(world.number_of("outbox").await, 0);
    let commands = StreamUse::Commands("counter");
    let left = world.deps.bus.stored(commands).await.unwrap();
    assert!(done + left >= 200, "the rest is left to the next start");
}

/// A key is its caller's own within one workspace.
#[tokio::test]
async fn the_same_key_in_two_workspaces_is_done_in_both() {
    let world = World::with_stream().await;
    let kernel = world.start().await;
    for (workspace, sum) in [("acme", 3), ("other", 6), ("acme", 3)] {
        let workspace = workspace.parse().unwrap();
        let command = envelope("a", 3, key("k", "three"));
        let reply = world.deps.bus.ask(&workspace, &command).await.unwrap();
        assert_eq!(reply.value, sum, "{workspace}");
    }
    assert_eq!(world.counts().await, counts(&[("a", 6)]));
    kernel.stop().await;
}

/// STYLE, store conformance: migrations equal entities.
#[tokio::test]
async fn the_kernels_tables_have_the_columns_of_its_entities() {
    let world = World::new().await;
    let expected = [
        ("outbox", "id messages created_at owner leased_until"),
        ("idempotency", "key digest answer created_at"),
        (
            "dead_letters",
            "id subject body reason created_at digest workspace",
        ),
        ("kernels", "name deaths started_at"),
        ("suspects", "digest begun noted_at"),
        ("desired_states", "kind workspace id rev body created_at"),
    ];
    for (table, columns) in expected {
        let sql = format!("SELECT name, 1 FROM pragma_table_info('{table}')");
        let found: BTreeSet<_> = world
            .rows(&sql)
            .await
            .into_iter()
            .map(|row| row.0)
            .collect();
        assert_eq!(found, columns.split(' ').map(str::to_owned).collect());
    }
}
