//! The bounds of streams in age and bytes, and which settings of an operator stay.

use async_nats::jetstream;
use async_nats::jetstream::stream::{Config, DiscardPolicy, Republish};
use holdpoint_bus::{
    Access, Bus, COMMANDS_BYTES_MAX, KEPT_FOR, Outgoing, STEPS_BYTES_MAX, StreamUse,
};
use holdpoint_testkit::{NatsProcess, TestNats, nats};

const COMMANDS: StreamUse<'_> = StreamUse::Commands("executor");

struct Streams {
    bus: Bus,
    jetstream: jetstream::Context,
    _nats: TestNats,
}

impl Streams {
    async fn new() -> Self {
        let nats = nats().await.unwrap();
        let bus = Bus::connect(&nats.url, "test").await.unwrap();
        Self {
            jetstream: jetstream::new(bus.client().clone()),
            bus,
            _nats: nats,
        }
    }

    async fn config(&self, stream: &str) -> Config {
        let found = self.jetstream.get_stream(stream).await.unwrap();
        found.cached_info().config.clone()
    }

    /// Publishes messages of 100 kB. Returns which were stored.
    async fn fill(&self, subject: &str, messages: usize) -> Vec<bool> {
        let body = "x".repeat(100_000);
        let one = Outgoing::json(subject.to_owned(), &body).unwrap();
        let stored = self.bus.publish_each(&vec![one; messages]).await;
        stored.iter().map(Result::is_ok).collect()
    }
}

/// Mend B-5, A-L9: a message without a consumer expires after an hour, and streams have a bound in bytes. Schedules
/// have none, because they would be dropped before they fire.
#[tokio::test]
async fn unconsumed_messages_are_bounded_and_schedules_are_not() {
    let streams = Streams::new().await;
    for wanted in [COMMANDS, StreamUse::Steps, StreamUse::Timers] {
        streams.bus.provide_stream(wanted).await.unwrap();
    }
    let commands = streams.config("HP_CMD_EXECUTOR").await;
    assert_eq!(
        (commands.max_age, commands.max_bytes, commands.discard),
        (KEPT_FOR, COMMANDS_BYTES_MAX, DiscardPolicy::New)
    );
    let steps = streams.config("HP_STEPS").await;
    assert_eq!(
        (steps.max_age, steps.max_bytes, steps.discard),
        (KEPT_FOR, STEPS_BYTES_MAX, DiscardPolicy::Old)
    );
    let timers = streams.config("HP_TIMERS").await;
    assert!(timers.max_age.is_zero() && timers.max_bytes <= 0 && timers.max_messages <= 0);
}

/// Mend A-L9: a full command stream refuses new messages and loses no stored one. A full stream of steps drops the
/// oldest dispatch, and a sweep publishes it again.
#[tokio::test]
async fn full_streams_refuse_commands_and_forget_old_steps() {
    let streams = Streams::new().await;
    for wanted in [COMMANDS, StreamUse::Steps] {
        streams.bus.provide_stream(wanted).await.unwrap();
    }
    for stream in ["HP_CMD_EXECUTOR", "HP_STEPS"] {
        let smaller = Config {
            max_bytes: 500_000,
            ..streams.config(stream).await
        };
        streams.jetstream.update_stream(&smaller).await.unwrap();
    }
    let taken = streams.fill("hp.default.cmd.executor.3.start_run", 8).await;
    assert_eq!(taken, [true, true, true, true, false, false, false, false]);
    assert_eq!(streams.bus.stored(COMMANDS).await.unwrap(), 4);
    let taken = streams.fill("hp.default.steps.log", 8).await;
    assert_eq!(taken, [true; 8]);
    assert_eq!(streams.bus.stored(StreamUse::Steps).await.unwrap(), 4);
}

/// Mend D-16, A-C1: a start keeps the settings of an operator, updates those of Holdpoint, and removes settings that
/// let a stream copy messages to other subjects.
#[tokio::test]
async fn a_start_keeps_what_an_operator_has_set() {
    let streams = Streams::new().await;
    let theirs = Config {
        name: "HP_STEPS".to_owned(),
        subjects: vec!["hp.*.steps.>".to_owned(), "hp.*.ask.executor.>".to_owned()],
        retention: jetstream::stream::RetentionPolicy::WorkQueue,
        description: Some("of the shop".to_owned()),
        max_bytes: 123_456_789,
        no_ack: true,
        republish: Some(Republish {
            source: "hp.default.ask.executor.3.deregister".to_owned(),
            destination: "hp.default.cmd.handoff.3.decide_request".to_owned(),
            headers_only: false,
        }),
        ..Config::default()
    };
    streams.jetstream.create_stream(theirs).await.unwrap();
    streams.bus.provide_stream(StreamUse::Steps).await.unwrap();
    let now = streams.config("HP_STEPS").await;
    assert_eq!(now.description.as_deref(), Some("of the shop"));
    assert_eq!((now.max_bytes, now.num_replicas), (123_456_789, 1));
    assert_eq!(now.max_age, KEPT_FOR);
    assert_eq!(now.subjects, ["hp.*.steps.>"]);
    assert_eq!((now.no_ack, now.republish), (false, None));
}

/// Mend D-16: replicas are requested only by an option, because a single server has none.
#[tokio::test]
async fn copies_are_asked_for_by_option() {
    let nats = nats().await.unwrap();
    let access = Access {
        replicas: Some(3),
        ..Access::default()
    };
    let bus = Bus::connect_with(&nats.url, "test", &access).await.unwrap();
    let refused = bus.provide_stream(COMMANDS).await.unwrap_err();
    let cause = std::error::Error::source(&refused).map(ToString::to_string);
    assert!(cause.unwrap().contains("replicas"), "{refused:?}");
}

/// Mend B-5: a server reserves the bytes of a bound. On a server with a small disk the limit of the account bounds all
/// streams.
#[tokio::test]
async fn a_small_server_has_streams_all_the_same() {
    let nats = NatsProcess::start("max_file_store: 8MB").await.unwrap();
    let bus = Bus::connect(&nats.url, "test").await.unwrap();
    for wanted in [COMMANDS, StreamUse::Steps, StreamUse::Timers] {
        bus.provide_stream(wanted).await.unwrap();
        bus.provide_stream(wanted).await.unwrap();
        assert_eq!(bus.stored(wanted).await.unwrap(), 0);
    }
}
