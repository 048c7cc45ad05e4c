//! Rows of the outbox that nobody can read.

use holdpoint_bus::{Outgoing, StreamUse};
use holdpoint_contracts::subject::{Lane, steps};
use holdpoint_testkit::until;
use sea_orm::ConnectionTrait;

use super::counter::acme;
use super::{PATIENCE, World};

#[tokio::test]
async fn an_unreadable_row_blocks_no_other() {
    holds_up_no_other(&World::new().await).await;
}

/// A row that cannot be read (a later version may have written it) stays where it is, and holds up no other one.
pub(super) async fn holds_up_no_other(world: &World) {
    let bus = &world.deps.bus;
    bus.provide_stream(StreamUse::Steps).await.unwrap();
    // As it was written before bodies were kept as they are.
    let message = Outgoing::json(steps(&acme(), "count", Lane::Normal), &"two\nlines").unwrap();
    let readable = serde_json::to_string(&[message]).unwrap();
    for messages in ["later", &readable, "later"] {
        let row = format!(
            "INSERT INTO outbox (messages, created_at, owner) \
             VALUES ('{messages}', '2026-03-02T08:00:00+00:00', 'gone')"
        );
        world.db.execute_unprepared(&row).await.unwrap();
    }
    if !world.deps.store.is_exclusive() {
        let over = "UPDATE outbox SET leased_until = now() - interval '1 second'";
        world.db.execute_unprepared(over).await.unwrap();
    }
    let kernel = world.start().await;
    let published = async || (bus.stored(StreamUse::Steps).await.unwrap() == 1).then_some(());
    until(PATIENCE, "the message that can be read", published)
        .await
        .unwrap();
    let rest = async || (world.number_of("outbox").await == 2).then_some(());
    until(PATIENCE, "its row to go", rest).await.unwrap();
    // What is newer is published, too.
    world.add("a", 1, None).await.unwrap();
    let both = async || (bus.stored(StreamUse::Steps).await.unwrap() == 2).then_some(());
    until(PATIENCE, "the newer message", both).await.unwrap();
    assert!(kernel.handle.is_ready());
    kernel.stop().await;
    assert_eq!(world.number_of("outbox").await, 2);
}
