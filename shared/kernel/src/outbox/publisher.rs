//! Sends what was committed: messages, then replies, then acks.
//!
//! The order matters. A reply before its messages could reach a caller that then reads a state whose effects
//! are not on their way. An ack before the reply could lose the reply in a crash, because the bus would not
//! deliver the message again. Batches are published in the order of their commits, so that a receiver sees
//! the effects of one aggregate in order. A batch whose messages the bus refuses joins the backlog, and
//! all later messages wait behind it. Replies and acks do not wait: the messages are safe in the outbox.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use holdpoint_bus::{Bus, BusError, Outgoing};
use holdpoint_store::StoreError;
use holdpoint_store::crash::{self, Point};
use sea_orm::DatabaseConnection;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::backlog::{Backlog, Unpublished, try_publish};
use super::rows::{self, OutboxEntry};
use crate::desired_states::rows::Unacknowledged;
use crate::desired_states::sender::Sender;
use crate::error_chain::error_chain;
use crate::origin::{FinishedTask, merge_parts};
use crate::reply::send_reply;
use crate::service::Service;
use crate::writer::delayed_replies::DelayedReply;

/// A retry of the oldest row of the backlog.
type Retry = Pin<Box<dyn Future<Output = RetryOutcome> + Send>>;

enum RetryOutcome {
    /// The bus has stored all messages.
    Stored,
    /// The row must not be published or deleted: another replica has adopted it, or this version cannot
    /// read it.
    NotOurs,
    /// The messages that are left, if known, and the error of the bus, if it was asked.
    Refused(Option<Vec<Outgoing>>, Option<BusError>),
}

/// How long one flush may take at a crash point.
const FLUSH_MAX: Duration = Duration::from_secs(2);

/// Batches in the channel to the publisher; it holds one more.
pub(crate) const UNPUBLISHED_MAX: usize = 1;

/// What a batch leaves to be sent.
#[derive(Default)]
pub(crate) struct CommittedBatch {
    /// The outbox row that contains `messages`.
    pub(crate) row: Option<i64>,
    pub(crate) messages: Vec<Outgoing>,
    /// Each is a row until its receiver has acknowledged it.
    pub(crate) desired_states: Vec<Unacknowledged>,
    pub(crate) nudges: Vec<(String, Bytes)>,
    pub(crate) finished: Vec<FinishedTask>,
    /// Replies of earlier tasks that waited for their effect.
    pub(crate) delayed_replies: Vec<DelayedReply>,
    /// For crash points.
    pub(crate) verbs: Vec<String>,
}

impl CommittedBatch {
    /// An outbox row of an earlier commit.
    pub(crate) fn of_row(row: i64, messages: Vec<Outgoing>) -> Self {
        Self {
            row: Some(row),
            messages,
            ..Self::default()
        }
    }

    /// Tasks that are finished without a commit.
    pub(crate) fn of_finished(finished: Vec<FinishedTask>) -> Self {
        Self {
            finished,
            ..Self::default()
        }
    }
}

/// Sends what batches leave, in their order.
pub(crate) struct Publisher<S: Service> {
    sender: Arc<Sender<S>>,
    /// For rows of the backlog.
    db: DatabaseConnection,
    /// The owner of this kernel's rows. `None`: no other kernel writes the tables.
    owner: Option<String>,
    backlog: Backlog,
    /// Runs beside newer batches: their callers must not wait for a silent bus.
    retry: Option<Retry>,
    stop: CancellationToken,
}

impl<S: Service> Publisher<S> {
    /// Publishes `pending`, the rows of an earlier process, before anything newer.
    pub(crate) fn new(
        sender: Arc<Sender<S>>,
        db: DatabaseConnection,
        owner: Option<String>,
        pending: VecDeque<OutboxEntry>,
        stop: CancellationToken,
    ) -> Self {
        let mut backlog = Backlog::new(sender.status.clone());
        if !pending.is_empty() {
            tracing::info!(
                service = S::NAME,
                batches = pending.len(),
                "publishing the outbox of the previous process"
            );
            backlog.begin_with(pending);
        }
        Self {
            sender,
            db,
            owner,
            backlog,
            retry: None,
            stop,
        }
    }

    /// Publishes until the writer has ended.
    pub(crate) async fn run(mut self, mut batches: mpsc::Receiver<CommittedBatch>) {
        loop {
            let has_room = self.backlog.has_room() || self.stop.is_cancelled();
            let batch = tokio::select! {
                biased;
                outcome = finish_retry(&mut self.retry) => {
                    self.handle_retry(outcome);
                    continue;
                }
                () = self.backlog.wait_until_due(), if self.retry.is_none() => {
                    self.retry = self.retry_oldest();
                    continue;
                }
                batch = batches.recv(), if has_room => batch,
                // A writer that stops must not wait for room.
                () = self.stop.cancelled(), if !has_room => continue,
            };
            match batch {
                Some(batch) => self.publish(batch).await,
                None => break,
            }
        }
        self.backlog.log_remaining(S::NAME);
    }

    async fn publish(&mut self, batch: CommittedBatch) {
        let CommittedBatch {
            row,
            messages,
            desired_states,
            nudges,
            finished,
            delayed_replies,
            verbs,
        } = batch;
        let tasks = finished.len();
        let (published, ()) = tokio::join!(
            self.backlog.publish::<S>(&self.sender.bus, row, messages),
            self.sender.send(desired_states)
        );
        let bus = &self.sender.bus;
        if bus.is_connected() {
            for (subject, body) in nudges {
                if let Err(error) = bus.send(subject, body).await {
                    tracing::debug!(%error, "nudge not sent");
                }
            }
        }
        crash::pass(S::NAME, Point::Published, &verbs);
        for (inbox, body) in delayed_replies {
            send_reply(bus, Some(inbox), Some(body)).await;
        }
        reply_and_ack::<S>(bus, finished, &verbs).await;
        self.sender.completions.end_batch(published);
        let status = &self.sender.status;
        status.handled.fetch_add(tasks, Ordering::AcqRel);
        status.in_flight.fetch_sub(tasks, Ordering::AcqRel);
    }

    fn retry_oldest(&mut self) -> Option<Retry> {
        let (row, messages) = self.backlog.first()?;
        let bus = self.sender.bus.clone();
        let (db, owner) = (self.db.clone(), self.owner.clone());
        Some(Box::pin(async move {
            if !bus.is_connected() {
                return RetryOutcome::Refused(messages, None);
            }
            let messages = match messages {
                Some(messages) => messages,
                None => match rows::load_messages(&db, row, owner.as_deref()).await {
                    Ok(Some(messages)) => messages,
                    Ok(None) => return RetryOutcome::NotOurs,
                    Err(error @ StoreError::BrokenRow { .. }) => {
                        rows::log_unreadable(row, &error);
                        return RetryOutcome::NotOurs;
                    }
                    Err(error) => {
                        tracing::debug!(error = %error_chain(&error), "outbox row not loaded; trying again");
                        return RetryOutcome::Refused(None, None);
                    }
                },
            };
            match try_publish(&bus, messages).await {
                None => RetryOutcome::Stored,
                Some(Unpublished { left, why }) => RetryOutcome::Refused(Some(left), Some(why)),
            }
        }))
    }

    /// After a success the next row is due at once.
    fn handle_retry(&mut self, outcome: RetryOutcome) {
        match outcome {
            RetryOutcome::Stored => {
                if let Some(row) = self.backlog.remove_first(S::NAME) {
                    self.sender.completions.row_published(row);
                }
            }
            RetryOutcome::NotOurs => drop(self.backlog.remove_first(S::NAME)),
            RetryOutcome::Refused(left, why) => self.backlog.set_refused(left, why.as_ref()),
        }
    }
}

/// The outcome of a running retry; never ends if there is none.
async fn finish_retry(retry: &mut Option<Retry>) -> RetryOutcome {
    let Some(running) = retry else {
        return std::future::pending().await;
    };
    let outcome = running.await;
    *retry = None;
    outcome
}

/// Sends all replies, then all acks.
async fn reply_and_ack<S: Service>(bus: &Bus, finished: Vec<FinishedTask>, verbs: &[String]) {
    let mut finished = merge_parts(finished);
    for task in &mut finished {
        task.origin.reply(bus, task.body.take()).await;
    }
    let is_armed = crash::is_armed(S::NAME);
    if is_armed {
        bus.flush(FLUSH_MAX).await;
    }
    crash::pass(S::NAME, Point::Replied, verbs);
    for task in finished {
        task.origin.dispose(bus, task.disposition).await;
    }
    if is_armed {
        bus.flush(FLUSH_MAX).await;
    }
    crash::pass(S::NAME, Point::Acked, verbs);
}
