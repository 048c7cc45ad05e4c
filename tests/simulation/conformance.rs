//! The same small behaviours asserted of the simulated bus and of a real server, so that the one
//! cannot drift from the other.

use std::time::Duration;

use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::{self, AckKind, Message};
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::StreamExt;
use holdpoint_bus::{Bus, StreamUse};
use holdpoint_contracts::subject;
use holdpoint_testkit::{nats, until};

use crate::bus::{Delivery, SimBus, queue_of};
use crate::world::acme;

const ACK_WAIT: Duration = Duration::from_secs(1);

/// Nothing came within this long: less than the ack wait.
const NOTHING: Duration = Duration::from_millis(400);

/// Less than the ack wait, and twice it more.
const MOST: Duration = Duration::from_millis(600);

const SOON: Duration = Duration::from_secs(10);

/// A work queue with one durable consumer.
trait Queue {
    /// One delivery.
    type Delivered;

    async fn publish(&mut self, body: &str);
    /// What is there now, without the ack wait passing.
    async fn pull(&mut self) -> Option<Self::Delivered>;
    /// What is there once the ack wait has passed.
    async fn pull_later(&mut self) -> Option<Self::Delivered>;
    /// Whether nothing comes while most of the ack wait passes.
    async fn is_quiet(&mut self) -> bool;
    /// Body and number of deliveries.
    fn read(delivered: &Self::Delivered) -> (String, u64);
    async fn ack(&mut self, delivered: &Self::Delivered);
    async fn nak(&mut self, delivered: &Self::Delivered);
    async fn progress(&mut self, delivered: &Self::Delivered);
    async fn wipe(&mut self);
    async fn has(&mut self, count: usize);
}

struct Simulated {
    bus: SimBus,
    now: DateTime<Utc>,
}

fn subject() -> String {
    subject::command(&acme(), "conformance", 0, "test")
}

impl Simulated {
    fn wait() -> TimeDelta {
        TimeDelta::from_std(ACK_WAIT).unwrap()
    }
}

impl Queue for Simulated {
    type Delivered = Delivery;

    async fn publish(&mut self, body: &str) {
        self.bus
            .publish(&subject(), body.to_owned(), None, self.now);
    }

    async fn pull(&mut self) -> Option<Delivery> {
        let queue = queue_of(&subject());
        self.bus.pull(&queue, self.now, Self::wait(), None)
    }

    async fn pull_later(&mut self) -> Option<Delivery> {
        self.now += Self::wait();
        self.pull().await
    }

    async fn is_quiet(&mut self) -> bool {
        self.now += TimeDelta::from_std(MOST).unwrap();
        self.pull().await.is_none()
    }

    fn read(delivered: &Delivery) -> (String, u64) {
        (delivered.body.clone(), delivered.count)
    }

    async fn ack(&mut self, delivered: &Delivery) {
        self.bus.ack(delivered.seq);
    }

    async fn nak(&mut self, delivered: &Delivery) {
        self.bus.nak(delivered.seq);
    }

    async fn progress(&mut self, delivered: &Delivery) {
        self.bus.progress(delivered.seq, self.now, Self::wait());
    }

    async fn wipe(&mut self) {
        self.bus.wipe();
    }

    async fn has(&mut self, count: usize) {
        assert_eq!(self.bus.stored_in(&queue_of(&subject())), count);
    }
}

struct Real {
    bus: Bus,
    messages: pull::Stream,
}

impl Real {
    async fn within(&mut self, patience: Duration) -> Option<Message> {
        let next = async {
            loop {
                // A missing heartbeat is an item, not the end.
                if let Ok(message) = self.messages.next().await.unwrap() {
                    return message;
                }
            }
        };
        tokio::time::timeout(patience, next).await.ok()
    }

    async fn stream(&self) -> jetstream::stream::Stream {
        let context = jetstream::new(self.bus.client().clone());
        let name = subject::commands_stream("conformance");
        context.get_stream(name).await.unwrap()
    }
}

impl Queue for Real {
    type Delivered = Message;

    async fn publish(&mut self, body: &str) {
        let context = jetstream::new(self.bus.client().clone());
        let stored = context.publish(subject(), body.to_owned().into()).await;
        stored.unwrap().await.unwrap();
    }

    async fn pull(&mut self) -> Option<Message> {
        self.within(NOTHING).await
    }

    async fn pull_later(&mut self) -> Option<Message> {
        self.within(ACK_WAIT * 2).await
    }

    async fn is_quiet(&mut self) -> bool {
        self.within(MOST).await.is_none()
    }

    fn read(delivered: &Message) -> (String, u64) {
        let body = String::from_utf8(delivered.payload.to_vec()).unwrap();
        let count = delivered.info().unwrap().delivered;
        (body, count.unsigned_abs())
    }

    async fn ack(&mut self, delivered: &Message) {
        delivered.ack().await.unwrap();
    }

    async fn nak(&mut self, delivered: &Message) {
        delivered.ack_with(AckKind::Nak(None)).await.unwrap();
    }

    async fn progress(&mut self, delivered: &Message) {
        delivered.ack_with(AckKind::Progress).await.unwrap();
    }

    async fn wipe(&mut self) {
        self.stream().await.purge().await.unwrap();
    }

    async fn has(&mut self, count: usize) {
        let stored = async || {
            let mut stream = self.stream().await;
            let messages = stream.info().await.unwrap().state.messages;
            (messages == count as u64).then_some(())
        };
        until(SOON, "the count of messages", stored).await.unwrap();
    }
}

/// What both must do.
async fn check_rules<Q: Queue>(queue: &mut Q) {
    let text = |body: &str, count: u64| Some((body.to_owned(), count));
    let read = |delivered: &Option<Q::Delivered>| delivered.as_ref().map(Q::read);

    // A delivery is held until the ack wait has passed; then it comes again with a higher count.
    queue.publish("a").await;
    let first = queue.pull().await;
    assert_eq!(read(&first), text("a", 1));
    assert_eq!(read(&queue.pull().await), None);
    let second = queue.pull_later().await;
    assert_eq!(read(&second), text("a", 2));

    // A late ack of the old delivery is accepted, though the newer one is held: it is gone.
    queue.ack(&first.unwrap()).await;
    queue.has(0).await;
    assert_eq!(read(&queue.pull_later().await), None);
    queue.ack(&second.unwrap()).await;
    queue.has(0).await;

    // Given back, it comes at once.
    queue.publish("b").await;
    let first = queue.pull().await.unwrap();
    queue.nak(&first).await;
    let second = queue.pull().await;
    assert_eq!(read(&second), text("b", 2));

    // An ack takes away that message alone.
    queue.publish("c").await;
    queue.ack(&second.unwrap()).await;
    queue.has(1).await;
    let third = queue.pull().await;
    assert_eq!(read(&third), text("c", 1));

    // A copy is a message of its own.
    queue.publish("c").await;
    queue.has(2).await;

    // What is wiped does not come again, and its ack is harmless.
    queue.wipe().await;
    queue.has(0).await;
    queue.ack(&third.unwrap()).await;
    while queue.pull().await.is_some() {}
    assert_eq!(read(&queue.pull_later().await), None);

    // Progress keeps a delivery from coming again.
    queue.publish("d").await;
    let held = queue.pull().await.unwrap();
    assert!(queue.is_quiet().await);
    queue.progress(&held).await;
    assert!(queue.is_quiet().await, "it would have come by now");
    queue.ack(&held).await;
    queue.has(0).await;
}

#[tokio::test]
async fn the_simulated_bus_follows_the_rules() {
    let now = "2026-03-02T09:00:00Z".parse().unwrap();
    let bus = SimBus::default();
    check_rules(&mut Simulated { bus, now }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_server_follows_the_same_rules() {
    let nats = nats().await.unwrap();
    let bus = Bus::connect(&nats.url, "conformance").await.unwrap();
    let commands = StreamUse::Commands("conformance");
    bus.provide_stream(commands).await.unwrap();
    let filter = subject::commands_filter("conformance");
    let messages = bus.pull(commands, "conformance", &filter, ACK_WAIT).await;
    let messages = messages.unwrap();
    check_rules(&mut Real { bus, messages }).await;
}
