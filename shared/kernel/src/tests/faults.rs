//! What goes wrong with a message, and with the database.

use holdpoint_bus::StreamUse;
use holdpoint_testkit::until;

use super::counter::{FULL, INCIDENTS, Input, NEEDY, POISON, POISON_RUN, ROOMY};
use super::{PATIENCE, World};

#[tokio::test]
async fn a_poisonous_command_among_two_hundred_spoils_no_neighbour_and_is_an_incident() {
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
async fn the_inputs_of_one_message_go_on_alone_when_their_whole_cannot_be_stored() {
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
    assert_eq!(kernel.handle.activity().in_flight(), 0);
    kernel.stop().await;
}

#[tokio::test]
async fn a_full_disk_loses_nothing_and_work_goes_on_when_there_is_room() {
    let world = World::with_stream().await;
    let kernel = world.start().await;
    assert!(kernel.handle.is_ready());
    world.add(FULL, 1, None).await.unwrap();
    // Larger than what is free within the file's pages.
    let large = "x".repeat(300_000);
    let told = world.add(&large, 1, None).await.unwrap_err();
    assert_eq!(told.status, 503, "{told:?}");
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
