//! Sends what was committed: messages, answers, acks. In this order, and never before the commit.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use holdpoint_bus::{Bus, Outgoing};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::Service;
use crate::crash::{self, Point};
use crate::parts;
use crate::task::{Origin, Settlement};
use crate::wishes::{Courier, Sent, Unconfirmed};
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
    pub(crate) wishes: Vec<Unconfirmed>,
    pub(crate) nudges: Vec<(String, Bytes)>,
    pub(crate) settled: Vec<Settled>,
    /// For crash points only.
    pub(crate) verbs: Vec<String>,
}

/// A task that is through.
pub(crate) struct Settled {
    pub(crate) origin: Origin,
    pub(crate) body: Option<Bytes>,
    pub(crate) settlement: Settlement,
}

/// Rows that have done their work: the writer deletes them with its next commit.
#[derive(Debug, Default)]
pub(crate) struct Through {
    /// Outbox rows whose messages are published.
    pub(crate) outbox: Vec<i64>,
    /// Wishes that their receivers have confirmed.
    pub(crate) wishes: Vec<Sent>,
}

impl Through {
    fn is_empty(&self) -> bool {
        self.outbox.is_empty() && self.wishes.is_empty()
    }
}

/// Where publisher and courier tell the writer what is through. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Published(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    through: Mutex<Through>,
    some: Notify,
    open: AtomicUsize,
    idle: Notify,
}

impl Published {
    pub(crate) fn begin(&self) {
        self.0.open.fetch_add(1, Ordering::AcqRel);
    }

    /// An outbox row has done its work.
    pub(crate) fn end_of(&self, row: i64) {
        self.through().outbox.push(row);
        self.0.some.notify_one();
    }

    pub(crate) fn end(&self, row: Option<i64>) {
        if let Some(row) = row {
            self.end_of(row);
        }
        if self.0.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.idle.notify_one();
        }
    }

    pub(crate) fn confirmed(&self, wishes: Vec<Sent>) {
        if !wishes.is_empty() {
            self.through().wishes.extend(wishes);
            self.0.some.notify_one();
        }
    }

    pub(crate) fn put_back(&self, rows: Through) {
        if rows.is_empty() {
            return;
        }
        let mut through = self.through();
        through.outbox.extend(rows.outbox);
        through.wishes.extend(rows.wishes);
        self.0.some.notify_one();
    }

    pub(crate) fn drain(&self) -> Through {
        std::mem::take(&mut *self.through())
    }

    /// Waits until there is something to delete.
    pub(crate) async fn some(&self) {
        while self.through().is_empty() {
            self.0.some.notified().await;
        }
    }

    fn through(&self) -> MutexGuard<'_, Through> {
        self.0
            .through
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn wait_until_idle(&self) {
        while self.0.open.load(Ordering::Acquire) > 0 {
            self.0.idle.notified().await;
        }
    }
}

/// Publishes until the writer is gone.
pub(crate) async fn run<S: Service>(
    courier: Courier<S>,
    mut batches: mpsc::Receiver<Publishing>,
    stop: CancellationToken,
) {
    let Courier {
        bus,
        published,
        activity,
        ..
    } = &courier;
    while let Some(batch) = batches.recv().await {
        let tasks = batch.settled.len();
        let (is_published, ()) = tokio::join!(
            publish(bus, batch.outgoing, &stop),
            courier.send(batch.wishes)
        );
        for (subject, body) in batch.nudges {
            if let Err(error) = bus.send(subject, body).await {
                tracing::debug!(%error, "a nudge was not sent");
            }
        }
        crash::pass(S::NAME, Point::Published, &batch.verbs);
        settle::<S>(bus, batch.settled, &batch.verbs).await;
        published.end(batch.outbox.filter(|_| is_published));
        activity.handled.fetch_add(tasks, Ordering::AcqRel);
        activity.in_flight.fetch_sub(tasks, Ordering::AcqRel);
    }
}

/// Answers all, then acks all.
async fn settle<S: Service>(bus: &Bus, settled: Vec<Settled>, verbs: &[String]) {
    let mut settled = parts::wholes(settled);
    for one in &mut settled {
        one.origin.answer(bus, one.body.take()).await;
    }
    let is_armed = crash::is_armed(S::NAME);
    if is_armed {
        bus.flush(RETRY_MAX).await;
    }
    crash::pass(S::NAME, Point::Replied, verbs);
    for one in settled {
        one.origin.settle(one.settlement).await;
    }
    if is_armed {
        bus.flush(RETRY_MAX).await;
    }
    crash::pass(S::NAME, Point::Acked, verbs);
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
