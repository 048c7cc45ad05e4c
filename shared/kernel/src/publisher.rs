//! Sends what was committed: messages, answers, acks. In this order, and never before the commit.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use holdpoint_bus::{Bus, Outgoing};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::start::Activity;
use crate::task::{Origin, Settlement};
use crate::writer::chain;

/// Wait before publishing is tried again while the bus is away; grows up to the second.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// Committed batches that wait for the publisher; with the one in its hands at most two.
pub(crate) const UNPUBLISHED_MAX: usize = 1;

/// What a batch leaves to be sent.
#[derive(Default)]
pub(crate) struct Publishing {
    pub(crate) outbox: Option<i64>,
    pub(crate) outgoing: Vec<Outgoing>,
    pub(crate) nudges: Vec<(String, Bytes)>,
    pub(crate) settled: Vec<Settled>,
}

/// A task that is through.
pub(crate) struct Settled {
    pub(crate) origin: Origin,
    pub(crate) body: Option<Bytes>,
    pub(crate) settlement: Settlement,
}

/// Outbox rows whose messages are published: the writer deletes them with its next commit.
#[derive(Debug, Clone, Default)]
pub(crate) struct Published(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    rows: Mutex<Vec<i64>>,
    open: AtomicUsize,
    idle: Notify,
}

impl Published {
    pub(crate) fn begin(&self) {
        self.0.open.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn end(&self, row: Option<i64>) {
        self.0
            .rows
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(row);
        if self.0.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.idle.notify_one();
        }
    }

    pub(crate) fn put_back(&self, rows: Vec<i64>) {
        self.0
            .rows
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(rows);
    }

    pub(crate) fn drain(&self) -> Vec<i64> {
        std::mem::take(&mut *self.0.rows.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.open.load(Ordering::Acquire) == 0
            && self
                .0
                .rows
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .is_empty()
    }

    pub(crate) async fn wait_until_idle(&self) {
        while self.0.open.load(Ordering::Acquire) > 0 {
            self.0.idle.notified().await;
        }
    }
}

/// Publishes until the writer is gone.
pub(crate) async fn run(
    bus: Bus,
    mut batches: mpsc::Receiver<Publishing>,
    published: Published,
    activity: Activity,
    stop: CancellationToken,
) {
    while let Some(batch) = batches.recv().await {
        let tasks = batch.settled.len();
        let is_published = publish(&bus, batch.outgoing, &stop).await;
        for (subject, body) in batch.nudges {
            if let Err(error) = bus.send(subject, body).await {
                tracing::debug!(%error, "a nudge was not sent");
            }
        }
        for settled in batch.settled {
            settled
                .origin
                .settle(&bus, settled.body, settled.settlement)
                .await;
        }
        published.end(batch.outbox.filter(|_| is_published));
        activity.handled.fetch_add(tasks, Ordering::AcqRel);
        activity.in_flight.fetch_sub(tasks, Ordering::AcqRel);
    }
}

/// Tries until all are stored: the outbox row keeps them, and nothing newer may overtake. Once the
/// service is to stop, one failure is enough: the row stays, and the next start publishes it.
pub(crate) async fn publish(bus: &Bus, messages: Vec<Outgoing>, stop: &CancellationToken) -> bool {
    let mut wait = RETRY_FIRST;
    while !messages.is_empty() {
        let Err(error) = bus.publish_all(messages.clone()).await else {
            return true;
        };
        let count = messages.len();
        if stop.is_cancelled() {
            tracing::warn!(error = %chain(&error), messages = count, "left in the outbox for the next start");
            return false;
        }
        tracing::warn!(error = %chain(&error), messages = count, "not published; trying again");
        stop.run_until_cancelled(tokio::time::sleep(wait)).await;
        wait = (wait * 2).min(RETRY_MAX);
    }
    true
}
