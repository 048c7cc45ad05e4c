//! Sends what was committed: messages, answers, acks. In this order, and never before the commit.

use std::collections::{BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use holdpoint_bus::{Bus, BusError, Outgoing};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::Service;
use crate::crash::{self, Point};
use crate::desired_states::{Sender, Sent, Unacknowledged};
use crate::outbox::{self, Kept};
use crate::split;
use crate::task::{Origin, Settlement};
use crate::writer::chain;

mod backlog;

use backlog::{Backlog, Unpublished, unstored};

/// An attempt at the oldest of what stayed behind.
type Attempt = Pin<Box<dyn Future<Output = RetryOutcome> + Send>>;

/// What became of it.
enum RetryOutcome {
    /// The bus has all of it.
    Stored,
    /// Nothing of it is ours to publish or to delete: another replica has it, or nobody of this version can read it.
    NotOurs,
    /// What is left of it, where that is known, and what the bus said, where it was asked.
    Refused(Option<Vec<Outgoing>>, Option<BusError>),
}

/// How long one flush may take at a crash point.
const FLUSH_MAX: Duration = Duration::from_secs(2);

/// Committed batches that wait for the publisher; with the one in its hands at most two.
pub(crate) const UNPUBLISHED_MAX: usize = 1;

/// What a batch leaves to be sent.
#[derive(Default)]
pub(crate) struct Publishing {
    pub(crate) outbox: Option<i64>,
    pub(crate) outgoing: Vec<Outgoing>,
    pub(crate) desired_states: Vec<Unacknowledged>,
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
    /// Desired states that their receivers have confirmed.
    pub(crate) desired_states: Vec<Sent>,
}

impl Through {
    fn is_empty(&self) -> bool {
        self.outbox.is_empty() && self.desired_states.is_empty()
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
    /// Outbox rows that are published now, or wait for it, or to be deleted.
    in_hand: Mutex<BTreeSet<i64>>,
}

impl Published {
    /// Something is given to the publisher; which outbox row keeps its messages.
    pub(crate) fn begin(&self, row: Option<i64>) {
        self.in_hand_mut().extend(row);
        self.0.open.fetch_add(1, Ordering::AcqRel);
    }

    /// Rows are deleted.
    pub(crate) fn forgotten(&self, through: &Through) {
        if through.outbox.is_empty() {
            return;
        }
        let mut in_hand = self.in_hand_mut();
        for row in &through.outbox {
            in_hand.remove(row);
        }
    }

    /// Outbox rows that this kernel knows of.
    pub(crate) fn in_hand(&self) -> Vec<i64> {
        self.in_hand_mut().iter().copied().collect()
    }

    fn in_hand_mut(&self) -> MutexGuard<'_, BTreeSet<i64>> {
        self.0
            .in_hand
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
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

    pub(crate) fn confirmed(&self, desired_states: Vec<Sent>) {
        if !desired_states.is_empty() {
            self.through().desired_states.extend(desired_states);
            self.0.some.notify_one();
        }
    }

    pub(crate) fn put_back(&self, rows: Through) {
        if rows.is_empty() {
            return;
        }
        let mut through = self.through();
        through.outbox.extend(rows.outbox);
        through.desired_states.extend(rows.desired_states);
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

/// Sends what batches leave, in their order. What the bus does not take stays in the outbox: callers
/// are answered and deliveries acked all the same, for it is committed.
pub(crate) struct Publisher<S: Service> {
    courier: Sender<S>,
    /// Where rows are read again.
    db: DatabaseConnection,
    /// Whose rows these are; none: nobody else writes the tables.
    owner: Option<String>,
    behind: Backlog,
    /// Beside newer batches: a bus that says nothing is waited for, and callers must not wait with us.
    attempt: Option<Attempt>,
    stop: CancellationToken,
}

impl<S: Service> Publisher<S> {
    /// Publishes what an earlier process left before anything newer.
    pub(crate) fn new(
        courier: Sender<S>,
        db: DatabaseConnection,
        owner: Option<String>,
        left_behind: VecDeque<Kept>,
        stop: CancellationToken,
    ) -> Self {
        let mut publisher = Self {
            behind: Backlog::new(courier.activity.clone()),
            courier,
            db,
            owner,
            attempt: None,
            stop,
        };
        if !left_behind.is_empty() {
            tracing::info!(
                service = S::NAME,
                batches = left_behind.len(),
                "publishing what the process before left in its outbox"
            );
            publisher.behind.begin_with(left_behind);
        }
        publisher
    }

    /// Publishes until the writer is gone.
    pub(crate) async fn run(mut self, mut batches: mpsc::Receiver<Publishing>) {
        loop {
            let has_room = self.behind.has_room() || self.stop.is_cancelled();
            let batch = tokio::select! {
                biased;
                tried = ended(&mut self.attempt) => {
                    self.tried(tried);
                    continue;
                }
                () = self.behind.is_due(), if self.attempt.is_none() => {
                    self.attempt = self.try_oldest();
                    continue;
                }
                batch = batches.recv(), if has_room => batch,
                // A writer that is to end must not wait for room.
                () = self.stop.cancelled(), if !has_room => continue,
            };
            match batch {
                Some(batch) => self.publish(batch).await,
                None => break,
            }
        }
        self.behind.leave(S::NAME);
    }

    async fn publish(&mut self, batch: Publishing) {
        let Publishing {
            outbox,
            outgoing,
            desired_states,
            nudges,
            settled,
            verbs,
        } = batch;
        let tasks = settled.len();
        let (published, ()) = tokio::join!(
            self.behind
                .publish::<S>(&self.courier.bus, outbox, outgoing),
            self.courier.send(desired_states)
        );
        let bus = &self.courier.bus;
        if bus.is_connected() {
            for (subject, body) in nudges {
                if let Err(error) = bus.send(subject, body).await {
                    tracing::debug!(%error, "a nudge was not sent");
                }
            }
        }
        crash::pass(S::NAME, Point::Published, &verbs);
        settle::<S>(bus, settled, &verbs).await;
        self.courier.published.end(published);
        let activity = &self.courier.activity;
        activity.handled.fetch_add(tasks, Ordering::AcqRel);
        activity.in_flight.fetch_sub(tasks, Ordering::AcqRel);
    }

    /// Begins to publish the oldest of what stayed behind.
    fn try_oldest(&mut self) -> Option<Attempt> {
        let (row, messages) = self.behind.first()?;
        let (bus, db, owner) = (
            self.courier.bus.clone(),
            self.db.clone(),
            self.owner.clone(),
        );
        Some(Box::pin(async move {
            if !bus.is_connected() {
                return RetryOutcome::Refused(messages, None);
            }
            let messages = match messages {
                Some(messages) => messages,
                None => match outbox::read_again(&db, row, owner.as_deref()).await {
                    Ok(Some(messages)) => messages,
                    Ok(None) => return RetryOutcome::NotOurs,
                    Err(error @ StoreError::BrokenRow { .. }) => {
                        outbox::unreadable(row, &error);
                        return RetryOutcome::NotOurs;
                    }
                    Err(error) => {
                        tracing::debug!(error = %chain(&error), "an outbox row could not be read; it is tried again");
                        return RetryOutcome::Refused(None, None);
                    }
                },
            };
            match unstored(&bus, messages).await {
                None => RetryOutcome::Stored,
                Some(Unpublished { left, why }) => RetryOutcome::Refused(Some(left), Some(why)),
            }
        }))
    }

    /// The attempt has ended; the next one is due at once where it was well.
    fn tried(&mut self, tried: RetryOutcome) {
        match tried {
            RetryOutcome::Stored => {
                if let Some(row) = self.behind.done(S::NAME) {
                    self.courier.published.end_of(row);
                }
            }
            RetryOutcome::NotOurs => drop(self.behind.done(S::NAME)),
            RetryOutcome::Refused(left, why) => self.behind.refused(left, why.as_ref()),
        }
    }
}

/// The end of an attempt; never where there is none.
async fn ended(attempt: &mut Option<Attempt>) -> RetryOutcome {
    let Some(running) = attempt else {
        return std::future::pending().await;
    };
    let tried = running.await;
    *attempt = None;
    tried
}

/// Answers all, then acks all.
async fn settle<S: Service>(bus: &Bus, settled: Vec<Settled>, verbs: &[String]) {
    let mut settled = split::wholes(settled);
    for one in &mut settled {
        one.origin.answer(bus, one.body.take()).await;
    }
    let is_armed = crash::is_armed(S::NAME);
    if is_armed {
        bus.flush(FLUSH_MAX).await;
    }
    crash::pass(S::NAME, Point::Replied, verbs);
    for one in settled {
        one.origin.settle(bus, one.settlement).await;
    }
    if is_armed {
        bus.flush(FLUSH_MAX).await;
    }
    crash::pass(S::NAME, Point::Acked, verbs);
}
