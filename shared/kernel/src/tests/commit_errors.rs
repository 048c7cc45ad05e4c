//! What goes wrong with a message, and with the database.

use futures_util::{FutureExt as _, StreamExt as _};
use holdpoint_bus::{Outgoing, StreamUse};
use holdpoint_contracts::message::{Actor, Command as _, Envelope};
use holdpoint_store::Location;
use holdpoint_testkit::{NatsProcess, until};
use sea_orm::ConnectionTrait as _;

use super::counter::{
    Add, AddAll, FULL, INCIDENTS, Input, NEEDY, POISON, POISON_RUN, ROOMY, VERBOSE, acme,
};
use super::{PATIENCE, World, counts, envelope};

#[tokio::test]
async fn one_poisonous_command_of_two_hundred_affects_no_other_and_becomes_an_incident() {
    for poison in [POISON_RUN, NEEDY] {
        let world = World::with_stream().await;
        let commands = StreamUse::Commands("counter");
        world.deps.bus.provide_stream(commands).await.unwrap();
        let names: Vec<_> = (0..199).map(|n| format!("n{n}")).collect();
        let mut stored: Vec<_> = names.iter().map(|name| (name.as_str(), 1)).collect();
        stored.insert(77, (poison, 1));
        world.publish(&stored).await;
        let kernel = world.start().await;
        world.all_acked().await;
        let incident = async || world.counts().await.remove(INCIDENTS);
        let incidents = until(PATIENCE, "the incident", incident).await.unwrap();
        assert_eq!(incidents, 1);
        let mut counts = world.counts().await;
        counts.remove(INCIDENTS);
        assert_eq!(counts.len(), 199);
        assert!(counts.values().all(|count| *count == 1), "{counts:?}");
        assert_eq!(world.number_of("dead_letters").await, 1);
        kernel.stop().await;
    }
}

/// One input that cannot be stored spoils no neighbour of its message either: a sweep's page, a
/// worker's results.
#[tokio::test]
async fn inputs_of_a_message_that_cannot_be_stored_are_decided_alone() {
    let world = World::with_stream().await;
    let kernel = world.start().await;
    let input = |name: &str| Input {
        name: name.to_owned(),
        by: 1,
    };
    let inputs = ["a", POISON, "b"].map(input).to_vec();
    assert!(kernel.handle.submit(inputs).await, "the page is through");
    let counts = world.counts().await;
    assert_eq!((counts.get("a"), counts.get("b")), (Some(&1), Some(&1)));
    assert_eq!(kernel.handle.status().in_flight(), 0);
    kernel.stop().await;
}

/// Ground, 8: a message above what the server takes would never be published, and everything behind it
/// would wait for ever. Its command is put aside with the reason before anything is committed, and its
/// neighbours go on.
#[tokio::test]
async fn a_message_above_the_limit_of_the_server_becomes_a_dead_letter_and_blocks_no_other() {
    let small = NatsProcess::taking_at_most(64 << 10).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let store = Location::Sqlite(dir.path().join("counter.db"));
    let world = World::at(&small.url, store, dir).await;
    let bus = &world.deps.bus;
    for stream in [StreamUse::Steps, StreamUse::Commands("counter")] {
        bus.provide_stream(stream).await.unwrap();
    }
    world.publish(&[("a", 1), (VERBOSE, 1), ("b", 1)]).await;
    let kernel = world.start().await;
    world.all_acked().await;
    let error = world.add(VERBOSE, 1, None).await.unwrap_err();
    assert_eq!(error.status, 500, "{error}");
    assert_eq!(world.add("c", 1, None).await.unwrap().value, 1);
    let published = async || (bus.stored(StreamUse::Steps).await.unwrap() == 3).then_some(());
    until(PATIENCE, "the messages of the others", published)
        .await
        .unwrap();
    let all = counts(&[("a", 1), ("b", 1), ("c", 1)]);
    assert_eq!(world.counts().await, all, "nothing of it has happened");
    let letters = world.rows("SELECT reason, 1 FROM dead_letters").await;
    assert_eq!(letters.len(), 2, "each is kept: {letters:?}");
    let reason = &letters[0].0;
    assert!(reason.contains("the bus allows 61440"), "{reason}");
    assert!(kernel.handle.is_ready(), "it works on");
    kernel.stop().await;
}

/// Ground, 8: what was done is done, and its caller is not left waiting for an answer that no bus takes.
#[tokio::test]
async fn a_reply_above_the_limit_of_the_server_becomes_a_problem_with_the_limit() {
    let small = NatsProcess::taking_at_most(64 << 10).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let store = Location::Sqlite(dir.path().join("counter.db"));
    let world = World::at(&small.url, store, dir).await;
    let bus = &world.deps.bus;
    bus.provide_stream(StreamUse::Steps).await.unwrap();
    let kernel = world.start().await;
    // Each is asked for in fewer words than it is answered with.
    let add = Add {
        name: "a".to_owned(),
        by: 1,
    };
    let many = Envelope {
        actor: Actor("owner".to_owned()),
        assertion: None,
        key: None,
        command: AddAll {
            adds: vec![add; 2_000],
        },
    };
    let error = bus.ask(&acme(), &many).await.unwrap_err();
    assert_eq!((error.status, &*error.code), (413, "answer_too_large"));
    assert!(error.detail.contains("65536"), "{error}");
    assert_eq!(world.add("b", 1, None).await.unwrap().value, 1);
    assert_eq!(world.counts().await, counts(&[("a", 2_000), ("b", 1)]));
    kernel.stop().await;
}

#[tokio::test]
async fn a_full_disk_loses_nothing_and_work_continues_when_there_is_room() {
    let world = World::with_stream().await;
    let kernel = world.start().await;
    assert!(kernel.handle.is_ready());
    world.add(FULL, 1, None).await.unwrap();
    // Larger than what is free within the file's pages.
    let large = "x".repeat(300_000);
    let error = world.add(&large, 1, None).await.unwrap_err();
    assert_eq!(error.status, 503, "{error:?}");
    assert!(!kernel.handle.is_ready());
    world.publish(&[(&large, 1)]).await;
    let commands = StreamUse::Commands("counter");
    assert_eq!(world.deps.bus.stored(commands).await.unwrap(), 1);
    assert_eq!(world.number_of("dead_letters").await, 0);

    let roomy = async || world.add(ROOMY, 1, None).await.ok();
    until(PATIENCE, "room", roomy).await.unwrap();
    world.all_acked().await;
    assert_eq!(world.counts().await.get(&large), Some(&1));
    assert!(kernel.handle.is_ready());
    kernel.stop().await;
}

/// Somebody else wrote a row that this kernel has in memory: whoever asked is answered all the same, at
/// once, from what is there now.
#[tokio::test]
async fn the_loser_of_a_race_is_decided_again_and_answered() {
    let world = World::with_stream().await;
    let kernel = world.start().await;
    assert_eq!(world.add("a", 3, None).await.unwrap().value, 3);
    let other = "UPDATE counters SET version = version + 1, value = 40 WHERE name = 'a'";
    world.db.execute_unprepared(other).await.unwrap();
    let (a, b) = tokio::join!(world.add("a", 2, None), world.add("b", 1, None));
    assert_eq!((a.unwrap().value, b.unwrap().value), (42, 1));
    assert_eq!(world.counts().await, counts(&[("a", 42), ("b", 1)]));
    assert_eq!(world.number_of("dead_letters").await, 0);
    kernel.stop().await;
}

/// DESIGN: a return address is an inbox; anything else would have the service publish a command.
#[tokio::test]
async fn a_stored_command_is_answered_only_at_an_inbox() {
    let world = World::with_stream().await;
    let kernel = world.start().await;
    let add = envelope("a", 1, None);
    let message = Outgoing::json(add.command.subject(&acme()), &add).unwrap();
    let elsewhere = "elsewhere.hp";
    let mut heard = world.deps.bus.client().subscribe(elsewhere).await.unwrap();
    let inbox = world.deps.bus.client().new_inbox();
    let mut answers = world
        .deps
        .bus
        .client()
        .subscribe(inbox.clone())
        .await
        .unwrap();
    let messages = vec![
        message.clone().header("hp-reply", elsewhere),
        message.header("hp-reply", inbox),
    ];
    world.deps.bus.publish_all(messages).await.unwrap();
    let answer = tokio::time::timeout(PATIENCE, answers.next()).await;
    assert!(answer.unwrap().is_some());
    world.all_acked().await;
    assert_eq!(world.counts().await, counts(&[("a", 2)]));
    world.deps.bus.client().flush().await.unwrap();
    assert!(heard.next().now_or_never().is_none());
    kernel.stop().await;
}
