//! Several kernels on one Postgres.

use std::time::Duration;

use holdpoint_bus::{Bus, StreamUse};
use holdpoint_contracts::message::Command;
use holdpoint_store::{Location, begin_write};
use holdpoint_testkit::{NatsProcess, TestPostgres, postgres, until};
use sea_orm::ConnectionTrait;
use tokio::runtime::Runtime;

use super::counter::{Count, Input, SAME, acme};
use super::{PATIENCE, World, envelope, key, start_on, unreadable};
use crate::Deps;

const COMMANDS: StreamUse<'_> = StreamUse::Commands("counter");

/// None where there is no Postgres; the testkit has said so.
pub(super) async fn world() -> Option<(World, TestPostgres)> {
    let postgres = postgres().await.unwrap()?;
    let store = Location::Postgres {
        url: postgres.url.clone(),
        schema: "counter".into(),
    };
    let nats = holdpoint_testkit::nats().await.unwrap();
    let world = World::on(nats, store, tempfile::tempdir().unwrap()).await;
    Some((world, postgres))
}

#[tokio::test]
async fn replicas_share_stored_commands_and_each_is_done_once() {
    let Some((world, _postgres)) = world().await else {
        return;
    };
    let bus = &world.deps.bus;
    bus.provide_stream(StreamUse::Steps).await.unwrap();
    bus.provide_stream(COMMANDS).await.unwrap();
    // As one process had it before; a work queue takes no second consumer beside it.
    let wait = Duration::from_secs(10);
    let filter = "hp.*.cmd.counter.>";
    bus.consumer(COMMANDS, "counter", filter, wait)
        .await
        .unwrap();
    let (one, other) = (world.start().await, world.start().await);
    let names: Vec<_> = (0..60).map(|n| format!("n{n}")).collect();
    let commands: Vec<_> = names.iter().map(|name| (name.as_str(), 1)).collect();
    world.publish(&commands).await;
    world.all_acked().await;
    let counts = world.counts().await;
    assert_eq!(counts.len(), 60);
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    // A replica that goes leaves its partitions to the other one.
    one.stop().await;
    world.publish(&commands).await;
    world.all_acked().await;
    let counts = world.counts().await;
    assert!(counts.values().all(|count| *count == 2), "{counts:?}");
    other.stop().await;
}

#[tokio::test]
async fn another_replica_publishes_an_outbox_row_after_its_lease() {
    let Some((world, _postgres)) = world().await else {
        return;
    };
    let mortal = Runtime::new().unwrap();
    let deps = world.deps.clone();
    let kernel = mortal
        .spawn(async move { start_on(&deps).await })
        .await
        .unwrap();
    // Nobody waits for it, and there is no stream that would take what it publishes.
    let asked = envelope("a", 3, None);
    let body = serde_json::to_vec(&asked).unwrap().into();
    let client = world.deps.bus.client();
    let subject = asked.command.ask_subject(&acme());
    client.publish(subject, body).await.unwrap();
    let kept = async || (world.number_of("outbox").await == 1).then_some(());
    until(PATIENCE, "the commit", kept).await.unwrap();
    drop(kernel);
    mortal.shutdown_background();

    let bus = &world.deps.bus;
    bus.provide_stream(StreamUse::Steps).await.unwrap();
    let kernel = world.start().await;
    world.add("b", 1, None).await.unwrap();
    let published = async || bus.stored(StreamUse::Steps).await.unwrap();
    assert_eq!(published().await, 1, "the lease of the other is not over");
    let over = "UPDATE outbox SET leased_until = now() - interval '1 second'";
    world.db.execute_unprepared(over).await.unwrap();
    let both = async || (published().await == 2).then_some(());
    until(PATIENCE, "the other's message", both).await.unwrap();
    let forgotten = async || (world.number_of("outbox").await == 0).then_some(());
    until(PATIENCE, "an empty outbox", forgotten).await.unwrap();
    assert_eq!(world.counts().await["a"], 3);
    kernel.stop().await;
}

#[tokio::test]
async fn an_unreadable_row_blocks_no_other_on_postgres() {
    if let Some((world, _postgres)) = world().await {
        unreadable::holds_up_no_other(&world).await;
    }
}

/// Two replicas have the same new key in their hands, and neither changes a row: whoever is second is
/// answered as the first one was. The first one is played by the test, for its commit has to wait.
#[tokio::test]
async fn a_repetition_that_races_with_another_replica_gets_the_stored_reply() {
    let Some((world, _postgres)) = world().await else {
        return;
    };
    let kernel = world.start().await;
    let first = begin_write(&world.db).await.unwrap();
    let answer = Count {
        name: SAME.to_owned(),
        version: 0,
        value: 7,
    };
    let answer = serde_json::json!({ "ok": answer });
    let used = format!("INSERT INTO idempotency VALUES ('acme/add/k', 'seven', '{answer}', now())");
    first.execute_unprepared(&used).await.unwrap();
    let second = world.add(SAME, 7, key("k", "seven"));
    let commit = async {
        let waiting = "SELECT '', count(*) FROM pg_locks WHERE NOT granted";
        let waits = async || (world.rows(waiting).await[0].1 > 0).then_some(());
        until(PATIENCE, "the second to wait for the first", waits)
            .await
            .unwrap();
        first.commit().await.unwrap();
    };
    let (reply, ()) = tokio::join!(second, commit);
    assert_eq!(reply.unwrap().value, 7);
    assert_eq!(world.number_of("dead_letters").await, 0);
    kernel.stop().await;
}

/// A row that another replica has taken over is that one's: whoever committed it, and could not publish
/// it in time, neither publishes nor deletes it. Each replica is on a bus of its own, for one of them
/// has to be away and the other one has to refuse.
#[tokio::test]
async fn an_adopted_row_is_not_deleted_by_its_late_owner() {
    let Some((world, _postgres)) = world().await else {
        return;
    };
    let mut unreachable = NatsProcess::start("").await.unwrap();
    let late = Deps {
        bus: Bus::connect(&unreachable.url, "late").await.unwrap(),
        ..world.deps.clone()
    };
    late.bus.provide_stream(StreamUse::Steps).await.unwrap();
    let first = start_on(&late).await;
    unreachable.stop().await.unwrap();
    let is_away = async || (!late.bus.is_connected()).then_some(());
    until(PATIENCE, "the end of the connection", is_away)
        .await
        .unwrap();
    let one = |name: &str| Input {
        name: name.to_owned(),
        by: 1,
    };
    assert!(first.handle.submit(vec![one("a")]).await);
    let owner = async || world.rows("SELECT owner, id FROM outbox").await;
    let before = owner().await;
    // There is no stream yet that would take what it publishes.
    let second = world.start().await;
    let over = "UPDATE outbox SET leased_until = now() - interval '1 second'";
    world.db.execute_unprepared(over).await.unwrap();
    let taken = async || (owner().await != before && !second.handle.is_ready()).then_some(());
    until(PATIENCE, "the second to take it over", taken)
        .await
        .unwrap();

    unreachable.go_on().await.unwrap();
    let is_ready = async || first.handle.is_ready().then_some(());
    until(PATIENCE, "the first to go on", is_ready)
        .await
        .unwrap();
    assert!(first.handle.submit(vec![one("b")]).await);
    let bus = &world.deps.bus;
    bus.provide_stream(StreamUse::Steps).await.unwrap();
    let published = async || (bus.stored(StreamUse::Steps).await.unwrap() == 1).then_some(());
    until(
        PATIENCE,
        "the message of the first, from the second",
        published,
    )
    .await
    .unwrap();
    let forgotten = async || (world.number_of("outbox").await == 0).then_some(());
    until(PATIENCE, "an empty outbox", forgotten).await.unwrap();
    assert_eq!(
        late.bus.stored(StreamUse::Steps).await.unwrap(),
        1,
        "b, and not a"
    );
    first.stop().await;
    second.stop().await;
}
