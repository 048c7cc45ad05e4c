//! The bus is stopped, or takes no more: the tables keep everything, and nothing waits for it that need
//! not.

use async_nats::jetstream;
use async_nats::jetstream::consumer::pull;
use std::time::Duration;

use futures_util::StreamExt;
use holdpoint_bus::StreamUse;
use holdpoint_store::Location;
use holdpoint_testkit::{NatsProcess, until};

use super::counter::{Count, Input};
use super::{Kernel, PATIENCE, World};

/// As small as messages may be that fill the server to its limit.
const FILLING: usize = 50_000;

async fn world(limits: &str) -> (World, NatsProcess) {
    let nats = NatsProcess::start(limits).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let store = Location::Sqlite(dir.path().join("counter.db"));
    let world = World::at(&nats.url, store, dir).await;
    let bus = &world.deps.bus;
    bus.provide_stream(StreamUse::Steps).await.unwrap();
    (world, nats)
}

async fn one_more(kernel: &Kernel) -> bool {
    let input = Input {
        name: "a".to_owned(),
        by: 1,
    };
    let submitted = kernel.handle.submit(vec![input]);
    let done = tokio::time::timeout(PATIENCE, submitted).await;
    done.expect("it does not wait for the bus")
}

impl World {
    /// What was published: the values of a counter, in the order of the stream.
    async fn published(&self, name: &str) -> Vec<i64> {
        let filter = "hp.*.steps.>";
        let wait = PATIENCE;
        let bus = &self.deps.bus;
        let mut messages: pull::Stream = bus
            .pull(StreamUse::Steps, "reader", filter, wait)
            .await
            .unwrap();
        let mut values = Vec::new();
        for _ in 0..bus.stored(StreamUse::Steps).await.unwrap() {
            let next = tokio::time::timeout(PATIENCE, messages.next()).await;
            let message = next.unwrap().unwrap().unwrap();
            let count: Count = serde_json::from_slice(&message.payload).unwrap();
            if count.name == name {
                values.push(count.value);
            }
        }
        values
    }

    /// The highest version of a desired state that was stored.
    async fn last_desired_state(&self) -> u64 {
        let ear = StreamUse::Commands("ear");
        let bus = &self.deps.bus;
        let mut messages: pull::Stream = bus
            .pull(ear, "ear", "hp.*.cmd.ear.>", PATIENCE)
            .await
            .unwrap();
        let mut last = 0;
        for _ in 0..bus.stored(ear).await.unwrap() {
            let next = tokio::time::timeout(PATIENCE, messages.next()).await;
            let message = next.unwrap().unwrap().unwrap();
            let desired_states: Vec<Count> = serde_json::from_slice(&message.payload).unwrap();
            last = desired_states
                .iter()
                .map(|desired_state| desired_state.version)
                .fold(last, u64::max);
        }
        last
    }

    async fn outbox_is_empty(&self) {
        let lookup = async || (self.number_of("outbox").await == 0).then_some(());
        until(PATIENCE, "an empty outbox", lookup).await.unwrap();
    }
}

/// S2-R7: what needs no bus goes on without one, commit after commit; what it has to tell waits in the
/// outbox, and is told once and in order when the bus is back.
#[tokio::test]
async fn internal_inputs_are_committed_while_the_bus_is_down() {
    let (world, mut nats) = world("").await;
    let kernel = world.start().await;
    assert!(one_more(&kernel).await);
    nats.stop().await.unwrap();
    let is_away = async || (!world.deps.bus.is_connected()).then_some(());
    until(PATIENCE, "the end of the connection", is_away)
        .await
        .unwrap();
    for _ in 0..20 {
        assert!(one_more(&kernel).await);
    }
    assert_eq!(world.counts().await["a"], 21);
    assert_eq!(world.number_of("outbox").await, 20);
    assert_eq!(kernel.handle.not_ready(), Some("the bus is disconnected"));
    nats.go_on().await.unwrap();
    world.outbox_is_empty().await;
    let is_ready = async || kernel.handle.is_ready().then_some(());
    until(PATIENCE, "the kernel to be ready", is_ready)
        .await
        .unwrap();
    assert_eq!(world.published("a").await, Vec::from_iter(1..=21));
    assert_eq!(kernel.handle.status().in_flight(), 0);
    kernel.stop().await;
}

/// The server has reached `max_file_store`, the stand-in for a full disk: commands and steps are
/// refused. The tables keep everything, deliveries are acked (which makes room), `/readyz` tells, and
/// with room it goes on; a start meanwhile changes nothing.
#[tokio::test]
async fn a_full_jetstream_neither_loses_nor_repeats_a_message() {
    let (world, _nats) = world("max_file_store: 2MB").await;
    let bus = &world.deps.bus;
    let kernel = world.start().await;
    world.publish(&[("a", 1), ("a", 1)]).await;
    world.all_acked().await;
    let filler = fill(bus.client()).await;
    for sum in 3..=10 {
        assert_eq!(world.add("a", 1, None).await.unwrap().value, sum);
    }
    let reason = kernel.handle.not_ready().unwrap();
    assert!(reason.contains("JetStream"), "{reason}");
    assert!(one_more(&kernel).await, "its own work goes on");
    assert_eq!(world.number_of("outbox").await, 9);

    kernel.stop().await;
    let kernel = world.start().await;
    assert!(!kernel.handle.is_ready());
    assert_eq!(world.add("a", 1, None).await.unwrap().value, 12);
    assert_eq!(world.number_of("outbox").await, 10);
    filler.purge().await.unwrap();
    world.outbox_is_empty().await;
    let is_ready = async || kernel.handle.is_ready().then_some(());
    until(PATIENCE, "the kernel to be ready", is_ready)
        .await
        .unwrap();
    assert_eq!(world.published("a").await, Vec::from_iter(1..=12));
    world.publish(&[("a", 1)]).await;
    world.all_acked().await;
    assert_eq!(world.counts().await["a"], 13);
    kernel.stop().await;
}

/// A server whose disk has been full says nothing at all to what it cannot store. Nobody who asks waits for
/// it, neither for messages nor for desired states; with its voice back everything is told once and in order.
#[tokio::test]
async fn a_silent_bus_blocks_no_caller() {
    let (world, _nats) = world("").await;
    let bus = &world.deps.bus;
    bus.provide_stream(StreamUse::Commands("ear"))
        .await
        .unwrap();
    let kernel = world.start().await;
    assert_eq!(world.add("a", 1, None).await.unwrap().value, 1);
    let both = ["HP_STEPS", "HP_CMD_EAR"];
    for stream in both {
        set_silent(bus.client(), stream, true).await;
    }
    // The first ones find it out.
    world.add("a", 1, None).await.unwrap();
    assert!(kernel.handle.submit(vec![desired_state(1)]).await);
    assert!(!kernel.handle.is_ready());
    let begun = tokio::time::Instant::now();
    for more in 2..=11 {
        assert_eq!(world.add("a", 1, None).await.unwrap().value, more + 1);
        assert!(kernel.handle.submit(vec![desired_state(more)]).await);
    }
    assert!(begun.elapsed() < SILENCE, "{:?}", begun.elapsed());
    let reason = kernel.handle.not_ready().unwrap();
    assert!(reason.contains("JetStream"), "{reason}");

    for stream in both {
        set_silent(bus.client(), stream, false).await;
    }
    world.outbox_is_empty().await;
    let is_ready = async || kernel.handle.is_ready().then_some(());
    until(PATIENCE, "the kernel to be ready", is_ready)
        .await
        .unwrap();
    let mut values = world.published("a").await;
    // What was published into silence may have been stored all the same.
    values.dedup();
    assert_eq!(values, Vec::from_iter(1..=12));
    assert_eq!(world.last_desired_state().await, 11);
    kernel.stop().await;
}

/// How long the client waits for the word that a message is stored.
const SILENCE: Duration = Duration::from_secs(5);

fn desired_state(by: i64) -> Input {
    let name = "ear-a".to_owned();
    Input { name, by }
}

async fn set_silent(client: &async_nats::Client, stream: &str, is_silent: bool) {
    let jetstream = jetstream::new(client.clone());
    let mut config = jetstream
        .get_stream(stream)
        .await
        .unwrap()
        .cached_info()
        .config
        .clone();
    config.no_ack = is_silent;
    jetstream.update_stream(config).await.unwrap();
}

/// Fills the server until it takes nothing more.
async fn fill(client: &async_nats::Client) -> jetstream::stream::Stream {
    let jetstream = jetstream::new(client.clone());
    let config = jetstream::stream::Config {
        name: "FILLER".to_owned(),
        subjects: vec!["filler".to_owned()],
        ..jetstream::stream::Config::default()
    };
    let stream = jetstream.create_stream(config).await.unwrap();
    let one = bytes::Bytes::from(vec![0; FILLING]);
    while let Ok(_stored) = jetstream
        .publish("filler", one.clone())
        .await
        .unwrap()
        .await
    {}
    stream
}
