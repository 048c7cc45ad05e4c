//! Receives buckets: loads the timers of each into the wheel, and acks it when they have fired.
//!
//! A bucket loads everything that is pending and due before its second ends, so that the next bucket repairs a
//! lost one.

use std::ops::ControlFlow;
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

/// How long a bucket may take before the bus redelivers it to another replica: its margin, its second, and a
/// storm of timers.
const ACK_WAIT: Duration = Duration::from_secs(30);

/// Buckets that share one query.
const BUCKETS_PER_LOAD: usize = 256;

/// Timers in the wheel. Beyond it a loader waits until the timers that it has loaded have fired.
const HELD_MAX: usize = 100_000;

/// Wait before a pull is opened again, and before a bucket that could not be loaded is redelivered.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Loads due timers from the table into the wheel. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Loader {
    pub(crate) db: DatabaseConnection,
    pub(crate) wheel: Wheel,
    pub(crate) clock: Clock,
}

/// The timers of one load.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) count: usize,
    fired: Vec<oneshot::Receiver<()>>,
}

impl Loaded {
    /// Waits until all timers have fired and are committed. `false`: the wheel stopped before.
    pub(crate) async fn wait_until_fired(&mut self) -> bool {
        for page in self.fired.drain(..) {
            if page.await.is_err() {
                return false;
            }
        }
        true
    }
}

impl Loader {
    /// Loads all pending timers that are due before `until` into the wheel. A test clock does not run: timers
    /// that are not due by it stay in the table until it is moved.
    pub(crate) async fn load(&self, until: DateTime<Utc>) -> Result<Loaded, StoreError> {
        let until = if self.clock.is_test() {
            until.min(self.clock.now() + TimeDelta::milliseconds(1))
        } else {
            until
        };
        let mut loaded = Loaded::default();
        let mut after = None;
        loop {
            let (timers, next) = store::list_due(&self.db, until, after).await?;
            loaded.count += timers.len();
            if !timers.is_empty() {
                loaded.fired.push(self.wheel.add(timers).await);
            }
            if next.is_none() {
                return Ok(loaded);
            }
            after = next;
            if self.wheel.held() >= HELD_MAX && !loaded.wait_until_fired().await {
                return Ok(loaded);
            }
        }
    }
}

/// Receives buckets from the bus.
#[derive(Debug)]
pub(crate) struct Buckets {
    pub(crate) bus: Bus,
    pub(crate) loader: Loader,
    pub(crate) tracker: TaskTracker,
}

impl Buckets {
    async fn open(&self, filter: &str) -> Result<pull::Stream, BusError> {
        // A server that lost its disk has no stream.
        self.bus.provide_stream(StreamUse::Timers).await?;
        self.bus
            .pull(StreamUse::Timers, CONSUMER, filter, ACK_WAIT)
            .await
    }

    /// Receives buckets until the service stops. A broken pull is opened again.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let filter = subject::TIMERS_DUE_FILTER;
        while !stop.is_cancelled() {
            match self.open(filter).await {
                Ok(messages) => self.receive(messages, &stop).await,
                Err(error) => tracing::warn!(%error, "buckets cannot be pulled; trying again"),
            }
            stop.run_until_cancelled(tokio::time::sleep(RETRY_AFTER))
                .await;
        }
    }

    /// Receives buckets of one pull until it breaks, or the service stops.
    async fn receive(&self, messages: pull::Stream, stop: &CancellationToken) {
        let mut chunks = messages.ready_chunks(BUCKETS_PER_LOAD);
        while let Some(Some(chunk)) = stop.run_until_cancelled(chunks.next()).await {
            if self.handle(chunk).await.is_break() {
                return;
            }
        }
    }

    /// `Break`: the pull is broken. The client would request again only after the pull has expired.
    async fn handle<E: std::fmt::Display>(
        &self,
        chunk: Vec<Result<Message, E>>,
    ) -> ControlFlow<()> {
        let began = Instant::now();
        let mut messages = Vec::with_capacity(chunk.len());
        let mut pull_state = ControlFlow::Continue(());
        for message in chunk {
            match message {
                Ok(message) => messages.push(message),
                Err(error) => {
                    tracing::debug!(%error, "pull of buckets broken; it is opened again");
                    pull_state = ControlFlow::Break(());
                }
            }
        }
        let ends = messages.iter().filter_map(bucket_end);
        let Some(until) = ends.max() else {
            ack_all(&messages, AckKind::Ack).await;
            return pull_state;
        };
        match self.loader.load(until).await {
            Ok(mut loaded) => {
                self.tracker.spawn(async move {
                    if loaded.wait_until_fired().await {
                        ack_all(&messages, AckKind::Ack).await;
                    }
                });
            }
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "timers of a bucket not loaded; the bucket will be redelivered"
                );
                ack_all(&messages, AckKind::Nak(Some(RETRY_AFTER))).await;
            }
        }
        // A load brings all timers that are due soon. Under load, buckets that arrive during this sleep share the
        // next load, so that loading takes half of the time at most.
        tokio::time::sleep(began.elapsed()).await;
        pull_state
    }
}

/// The instant at which a bucket ends. `None`: the body is malformed.
fn bucket_end(message: &Message) -> Option<DateTime<Utc>> {
    let bucket: DueBucket = serde_json::from_slice(&message.payload)
        .inspect_err(|error| tracing::error!(%error, "malformed bucket message dropped"))
        .ok()?;
    DateTime::from_timestamp(bucket.second.checked_add(1)?, 0)
}

async fn ack_all(messages: &[Message], kind: AckKind) {
    for message in messages {
        if let Err(error) = message.ack_with(kind).await {
            tracing::debug!(%error, "ack not sent; the bucket will be redelivered");
        }
    }
}
