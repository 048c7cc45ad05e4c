//! Buckets that have come: reads the timers of each into the wheel, and acks it once they fired.
//!
//! A bucket brings everything that is pending and due before its second ends, so that a lost one is
//! made good by the next.

use std::time::Duration;

use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::{AckKind, Message};
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::StreamExt;
use holdpoint_bus::{Bus, BusError, StreamUse};
use holdpoint_clock::Clock;
use holdpoint_contracts::scheduler::DueBucket;
use holdpoint_contracts::subject;
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::store;
use crate::wheel::Wheel;

/// The durable consumer that all replicas share.
pub(crate) const CONSUMER: &str = "scheduler-due";

/// How long a bucket may take until it goes to another replica: its margin, its second, and a
/// storm in it.
const ACK_WAIT: Duration = Duration::from_secs(30);

/// Buckets that share one look at the table.
const BUCKETS_PER_LOOK: usize = 256;

/// Alarms in the wheel from which on readers wait until what they have read has fired.
const HELD_MAX: usize = 100_000;

/// Wait before a pull is opened again, and before a bucket that could not be read comes again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Reads due timers from the table into the wheel. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Loader {
    pub(crate) db: DatabaseConnection,
    pub(crate) wheel: Wheel,
    pub(crate) clock: Clock,
}

/// What one look at the table brought.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) count: usize,
    fired: Vec<oneshot::Receiver<()>>,
}

impl Loaded {
    /// Waits until all are fired and committed; false when the wheel stopped before.
    pub(crate) async fn fired(self) -> bool {
        for page in self.fired {
            if page.await.is_err() {
                return false;
            }
        }
        true
    }
}

impl Loader {
    /// Puts everything that is pending and due before `until` into the wheel. A test clock stands
    /// still: what is not due by it stays in the table and comes again when it is moved.
    pub(crate) async fn load(&self, until: DateTime<Utc>) -> Result<Loaded, StoreError> {
        let until = if self.clock.is_test() {
            until.min(self.clock.now() + TimeDelta::milliseconds(1))
        } else {
            until
        };
        let mut loaded = Loaded::default();
        let mut behind = None;
        loop {
            let page = store::due(&self.db, until, behind.as_ref()).await?;
            loaded.count += page.timers.len();
            behind = page.next;
            if !page.timers.is_empty() {
                loaded.fired.push(self.wheel.add(page.timers).await);
            }
            if behind.is_none() {
                return Ok(loaded);
            }
            if self.wheel.held() >= HELD_MAX {
                let read = std::mem::take(&mut loaded.fired);
                let page = Loaded {
                    count: 0,
                    fired: read,
                };
                if !page.fired().await {
                    return Ok(loaded);
                }
            }
        }
    }
}

/// Takes buckets from the bus.
#[derive(Debug)]
pub(crate) struct Buckets {
    pub(crate) bus: Bus,
    pub(crate) loader: Loader,
    pub(crate) tracker: TaskTracker,
}

impl Buckets {
    async fn open(&self, filter: &str) -> Result<pull::Stream, BusError> {
        // Gone where the server lost its disk.
        self.bus.provide_stream(StreamUse::Timers).await?;
        self.bus
            .pull(StreamUse::Timers, CONSUMER, filter, ACK_WAIT)
            .await
    }

    /// Takes buckets until it is told to stop; opens the pull again when it breaks.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let filter = subject::TIMERS_DUE_FILTER;
        while !stop.is_cancelled() {
            match self.open(filter).await {
                Ok(messages) => {
                    let mut chunks = messages.ready_chunks(BUCKETS_PER_LOOK);
                    while let Some(Some(chunk)) = stop.run_until_cancelled(chunks.next()).await {
                        self.take(chunk).await;
                    }
                }
                Err(error) => tracing::warn!(%error, "no buckets can be pulled; trying again"),
            }
            stop.run_until_cancelled(tokio::time::sleep(AGAIN_AFTER))
                .await;
        }
    }

    async fn take<E: std::fmt::Display>(&self, chunk: Vec<Result<Message, E>>) {
        let began = Instant::now();
        let mut messages = Vec::with_capacity(chunk.len());
        for message in chunk {
            match message {
                Ok(message) => messages.push(message),
                // A missing heartbeat is an item, not the end.
                Err(error) => tracing::debug!(%error, "while pulling buckets"),
            }
        }
        let ends = messages.iter().filter_map(end);
        let Some(until) = ends.max() else {
            return settle(&messages, AckKind::Ack).await;
        };
        match self.loader.load(until).await {
            Ok(loaded) => {
                self.tracker.spawn(async move {
                    if loaded.fired().await {
                        settle(&messages, AckKind::Ack).await;
                    }
                });
            }
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "a bucket could not be read; it comes again"
                );
                settle(&messages, AckKind::Nak(Some(AGAIN_AFTER))).await;
            }
        }
        // A look brings all that is due soon. When there is much of it, buckets that come meanwhile
        // share the next look: reading takes half of the time at most.
        tokio::time::sleep(began.elapsed()).await;
    }
}

/// The instant at which a bucket ends; none for a body that is no bucket.
fn end(message: &Message) -> Option<DateTime<Utc>> {
    let bucket: DueBucket = serde_json::from_slice(&message.payload)
        .inspect_err(|error| tracing::error!(%error, "a message that is no bucket"))
        .ok()?;
    DateTime::from_timestamp(bucket.second.checked_add(1)?, 0)
}

async fn settle(messages: &[Message], kind: AckKind) {
    for message in messages {
        if let Err(error) = message.ack_with(kind).await {
            tracing::debug!(%error, "an ack was not sent; the bucket comes again");
        }
    }
}
