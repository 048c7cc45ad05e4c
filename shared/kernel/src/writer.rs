//! The database thread: takes the tasks that wait, commits them as one batch, and gives it to the publisher.

mod batch;
pub(crate) mod commit;
mod dead_letter;
pub(crate) mod delayed_replies;
mod isolation;
mod next_batch;
mod replay;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_bus::Bus;
use holdpoint_clock::Clock;
use holdpoint_contracts::problem::Problem;
use holdpoint_decision::Decider;
use holdpoint_store::crash::{self, Point};
use holdpoint_store::{StoreError, TableWriter, is_conflict};
use sea_orm::{DbErr, RuntimeErr};
use tokio::sync::mpsc;
use tokio::time::Instant;

use self::commit::{CommitError, CommitInput, StateCache, commit, delete_completed_alone};
use self::delayed_replies::{DelayedReplies, DelayedReply};
use self::next_batch::{TAKE_MAX, gather, next_batch};
use crate::completion::CompletionQueue;
use crate::dead_letters::requests::DeadLetterCommand;
use crate::error_chain::error_chain;
use crate::origin::{Disposition, FinishedTask};
use crate::outbox::publisher::CommittedBatch;
use crate::service::{KeyOf, Service};
use crate::status::KernelStatus;
use crate::suspects::Suspects;
use crate::task::Task;
use crate::{dead_letters, idempotency, outbox};

/// How long a completed row may wait for the next commit before it is deleted separately.
const DELETE_AFTER: Duration = Duration::from_millis(50);

/// How long an idle kernel waits before it tries an unavailable database again.
const PROBE_DATABASE_AFTER: Duration = Duration::from_secs(1);

/// How often old idempotency keys and dead letters are deleted.
const TRIM_EVERY: TimeDelta = TimeDelta::hours(1);

/// Tries of a batch while the database is unavailable, and the wait between them.
const TRIES_MAX: u32 = 6;
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Everything that the database thread works with.
pub(crate) struct Writer<S: Service> {
    pub(crate) service: Arc<S>,
    pub(crate) db: TableWriter,
    /// For its size limit and for replies to operators; the publisher sends everything else.
    pub(crate) bus: Bus,
    pub(crate) clock: Clock,
    /// How long dead letters are kept.
    pub(crate) kept_for: TimeDelta,
    pub(crate) cache: StateCache<S>,
    pub(crate) delayed_replies: DelayedReplies<S>,
    pub(crate) tasks: mpsc::Receiver<Task<S>>,
    pub(crate) batches: mpsc::Sender<CommittedBatch>,
    pub(crate) completions: CompletionQueue,
    /// This kernel's name on its outbox rows.
    pub(crate) owner: String,
    pub(crate) status: KernelStatus,
    pub(crate) suspects: Suspects,
    /// The digest of the input that is decided alone.
    pub(crate) suspect: Option<String>,
    pub(crate) dead_letter_commands: mpsc::Receiver<DeadLetterCommand>,
    /// The dead letter that is replayed.
    pub(crate) replayed: Option<i64>,
    /// The confirmation of a commit was lost: its outbox row may exist.
    pub(crate) may_have_committed: bool,
    /// When old idempotency keys and dead letters are deleted next.
    pub(crate) next_trim: Option<DateTime<Utc>>,
    /// Incidents of dead letters, decided with the next batch.
    pub(crate) incidents: Vec<Task<S>>,
}

/// Tasks that are committed together, and how often that was tried.
struct BatchAttempt<S: Service> {
    tasks: Vec<Task<S>>,
    tries: u32,
}

impl<S: Service> BatchAttempt<S> {
    const fn first(tasks: Vec<Task<S>>) -> Self {
        Self { tasks, tries: 0 }
    }
}

impl<S: Service> Writer<S> {
    /// Works until all senders of tasks are dropped, then deletes completed rows.
    pub(crate) async fn run(mut self) {
        let mut backlog = Vec::new();
        loop {
            backlog.append(&mut self.incidents);
            if backlog.is_empty() {
                if !self.take(&mut backlog).await {
                    break;
                }
                let linger = |task: &Task<S>| task.linger(&self.service);
                gather(&mut self.tasks, &mut backlog, linger).await;
            }
            self.status.set_at_work(true);
            self.decide_isolated_ones(&mut backlog).await;
            let tasks = next_batch(&mut backlog);
            crash::pass(S::NAME, Point::Fetched, &verbs(&tasks));
            let (poison, tasks) = tasks.into_iter().partition(|task| task.poison.is_some());
            self.store_unreadable(poison).await;
            self.process(tasks).await;
            self.trim().await;
            self.handle_dead_letter_commands().await;
            self.suspects.tick(&self.db, self.clock.now()).await;
            self.send_expired_replies().await;
            self.status.set_at_work(false);
        }
        let left = self.delayed_replies.drain();
        self.send_incomplete(left).await;
        // The publisher ends when its last sender is dropped.
        self.batches = mpsc::channel(1).0;
        self.completions.wait_until_idle().await;
        self.delete_completed().await;
        if let Err(error) = self.suspects.leave(&self.db).await {
            tracing::warn!(error = %error_chain(&error), "clean stop not recorded; the next start isolates inputs");
        }
        if let Err(error) = self.db.close().await {
            tracing::warn!(%error, "database not closed cleanly");
        }
    }

    /// Waits for tasks. False: there will be no more.
    async fn take(&mut self, backlog: &mut Vec<Task<S>>) -> bool {
        loop {
            let isolation_due = self.suspects.due();
            let deletion_due = async {
                self.completions.wait_for_rows().await;
                let wait = if self.status.database_answers() {
                    DELETE_AFTER
                } else {
                    PROBE_DATABASE_AFTER
                };
                tokio::time::sleep(wait).await;
            };
            tokio::select! {
                biased;
                taken = self.tasks.recv_many(backlog, TAKE_MAX) => return taken > 0,
                () = deletion_due => {
                    self.status.set_at_work(true);
                    self.delete_completed().await;
                    self.status.set_at_work(false);
                }
                Some(command) = self.dead_letter_commands.recv() => {
                    self.status.set_at_work(true);
                    self.handle_dead_letter_command(command).await;
                    self.status.set_at_work(false);
                }
                () = sleep_until(self.delayed_replies.next_deadline()) => self.send_expired_replies().await,
                () = sleep_until(isolation_due) => self.suspects.tick(&self.db, self.clock.now()).await,
                () = tokio::time::sleep(PROBE_DATABASE_AFTER), if !self.status.database_answers() => {
                    self.status.set_database_answers(self.db.takes_writes().await);
                }
            }
        }
    }

    /// Commits a batch. Tasks that cannot be committed together are tried in smaller batches.
    async fn process(&mut self, tasks: Vec<Task<S>>) {
        let mut attempts = vec![BatchAttempt::first(tasks)];
        while let Some(attempt) = attempts.pop() {
            self.status.set_at_work(true);
            if attempt.tasks.is_empty() {
                continue;
            }
            self.publish_lost_commits().await;
            let completed = self.completions.drain();
            let verbs = verbs(&attempt.tasks);
            let input = CommitInput {
                tasks: &attempt.tasks,
                completed: &completed,
                now: self.clock.now(),
                owner: &self.owner,
                message_bytes_max: outbox::rows::message_bytes_max(&self.bus),
                suspect: self.suspect.as_deref(),
                replayed: self.replayed,
                verbs: &verbs,
            };
            let committed = commit(
                &self.db,
                &*self.service,
                &mut self.cache,
                &mut self.delayed_replies,
                &input,
            );
            match committed.await {
                Ok((batch, replies)) => {
                    self.status.set_database_answers(true);
                    self.replayed = None;
                    if let Some(digest) = self.suspect.take() {
                        self.suspects.committed(&digest);
                    }
                    self.completions.rows_deleted(&completed);
                    let finished = finish(attempt.tasks, replies);
                    self.publish(CommittedBatch {
                        finished,
                        verbs,
                        ..batch
                    })
                    .await;
                }
                Err(error) => {
                    self.completions.return_rows(completed);
                    self.cache.clear_states();
                    self.may_have_committed |=
                        matches!(&error, CommitError::Store(error) if is_transient(error));
                    self.retry_or_split(attempt, error, &mut attempts).await;
                }
            }
        }
    }

    /// Decides what happens to a batch that was not committed.
    async fn retry_or_split(
        &mut self,
        attempt: BatchAttempt<S>,
        error: CommitError<KeyOf<S>>,
        attempts: &mut Vec<BatchAttempt<S>>,
    ) {
        let BatchAttempt { tasks, tries } = attempt;
        let tries = tries + 1;
        match error {
            CommitError::Conflict(keys) if tries < TRIES_MAX => {
                tracing::debug!(?keys, "another writer was faster; deciding again");
                retry_conflicts(tasks, &keys, tries, attempts);
            }
            CommitError::Store(error) if is_conflict(&error) && tries < TRIES_MAX => {
                tracing::debug!(error = %error_chain(&error), "another writer was faster; deciding again");
                attempts.push(BatchAttempt { tasks, tries });
            }
            CommitError::Store(error) if is_transient(&error) && tries < TRIES_MAX => {
                // Logged once; its end is logged, too.
                if self.status.database_answers() {
                    tracing::warn!(error = %error_chain(&error), "database unavailable or busy; trying again");
                }
                self.status.set_database_answers(false);
                tokio::time::sleep(RETRY_AFTER * tries).await;
                attempts.push(BatchAttempt { tasks, tries });
            }
            CommitError::KeyReused if tasks.len() > 1 => split_in_halves(tasks, attempts),
            CommitError::KeyReused if tries < TRIES_MAX => {
                attempts.push(BatchAttempt { tasks, tries });
            }
            CommitError::Conflict(_) | CommitError::KeyReused => {
                self.abandon(tasks, "too many writers of the same rows")
                    .await;
            }
            CommitError::Store(error) if is_transient(&error) => {
                self.abandon(tasks, &error_chain(&error)).await;
            }
            CommitError::Store(error) if is_conflict(&error) => {
                self.abandon(tasks, "too many writers of the same rows")
                    .await;
            }
            CommitError::Store(error) if tasks.len() > 1 => {
                tracing::warn!(error = %error_chain(&error), tasks = tasks.len(), "batch failed; trying its halves");
                split_in_halves(tasks, attempts);
            }
            CommitError::Store(error) if tasks.iter().any(Task::is_splittable) => {
                tracing::warn!(error = %error_chain(&error), "message failed; trying its inputs one by one");
                for task in tasks {
                    attempts.push(BatchAttempt::first(self.split(task)));
                }
            }
            CommitError::Store(error) => {
                self.store_dead_letters(tasks, &error_chain(&error), None)
                    .await;
            }
        }
    }

    /// Nothing was committed: callers may ask again, and the bus redelivers.
    async fn abandon(&mut self, tasks: Vec<Task<S>>, reason: &str) {
        tracing::error!(
            service = S::NAME,
            tasks = tasks.len(),
            reason,
            "batch abandoned; its messages will be redelivered"
        );
        let problem = Problem::unavailable("the service's database is unavailable; try again");
        self.finish_all(tasks, &problem, Disposition::Nak).await;
    }

    async fn store_unreadable(&mut self, tasks: Vec<Task<S>>) {
        self.store_dead_letters(tasks, "the message cannot be decoded", None)
            .await;
    }

    /// Deletes old idempotency keys and dead letters every [`TRIM_EVERY`].
    async fn trim(&mut self) {
        let now = self.clock.now();
        if self.next_trim.is_some_and(|next| now < next) {
            return;
        }
        self.next_trim = Some(now + TRIM_EVERY);
        let trimmed = async {
            idempotency::trim(&self.db, now).await?;
            dead_letters::trim(&self.db, now - self.kept_for).await
        };
        if let Err(error) = trimmed.await {
            tracing::warn!(error = %error_chain(&error), "old idempotency keys and dead letters not deleted; trying again later");
        }
    }

    /// Publishes rows of this kernel that it does not know, because the confirmation of their commit was
    /// lost. This must happen before the next commit: until then no unknown row can be in other hands.
    async fn publish_lost_commits(&mut self) {
        if !self.may_have_committed {
            return;
        }
        let known = self.completions.rows_in_hand();
        match outbox::rows::load_unknown(&self.db, &self.owner, &known).await {
            Ok(unknown) => {
                self.may_have_committed = false;
                for (row, messages) in unknown {
                    tracing::info!(
                        service = S::NAME,
                        row,
                        "a commit without confirmation was found; its messages are published"
                    );
                    self.publish(CommittedBatch::of_row(row, messages)).await;
                }
            }
            // The next commit is tried all the same; this is tried again before the one after it.
            Err(error) => {
                tracing::debug!(error = %error_chain(&error), "the outbox cannot be read; trying again before the next commit");
            }
        }
    }

    async fn delete_completed(&self) {
        let completed = self.completions.drain();
        let deleted = delete_completed_alone(&self.db, &completed).await;
        self.status.set_database_answers(deleted.is_ok());
        match deleted {
            Ok(()) => self.completions.rows_deleted(&completed),
            Err(error) => {
                tracing::warn!(error = %error_chain(&error), "published and acknowledged rows not deleted; trying again");
                self.completions.return_rows(completed);
            }
        }
    }

    async fn send_expired_replies(&mut self) {
        let expired = self.delayed_replies.expire(Instant::now());
        self.send_incomplete(expired).await;
    }

    async fn send_incomplete(&self, delayed_replies: Vec<DelayedReply>) {
        if !delayed_replies.is_empty() {
            self.publish(CommittedBatch {
                delayed_replies,
                ..CommittedBatch::default()
            })
            .await;
        }
    }

    async fn publish(&self, batch: CommittedBatch) {
        self.completions.begin_batch(batch.row);
        let tasks = batch.finished.len();
        if self.batches.send(batch).await.is_err() {
            // Only while the process ends: the next one publishes the outbox row.
            tracing::warn!(
                service = S::NAME,
                "service stops; a committed batch is left to the next start"
            );
            self.completions.end_batch(None);
            self.status.in_flight.fetch_sub(tasks, Ordering::AcqRel);
        }
    }
}

/// Ends at an instant; never if there is none.
async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

fn finish<S: Service>(tasks: Vec<Task<S>>, replies: Vec<Option<Bytes>>) -> Vec<FinishedTask> {
    let finished = tasks.into_iter().zip(replies);
    finished
        .map(|(task, body)| FinishedTask {
            origin: task.origin,
            body,
            disposition: Disposition::Ack,
        })
        .collect()
}

/// The verbs of a batch's commands, for crash points.
fn verbs<S: Service>(tasks: &[Task<S>]) -> Vec<String> {
    crash::verbs(tasks.iter().map(|task| task.raw.subject.as_str()))
}

/// The other tasks are decided together first, then the tasks of the given keys one by one. Attempts are
/// taken from the end.
fn retry_conflicts<S: Service>(
    tasks: Vec<Task<S>>,
    keys: &[KeyOf<S>],
    tries: u32,
    attempts: &mut Vec<BatchAttempt<S>>,
) {
    let keys: HashSet<_> = keys.iter().collect();
    let touches = |task: &Task<S>| {
        let mut inputs = task.inputs.iter();
        inputs.any(|input| keys.contains(&S::Domain::key(input)))
    };
    let (losers, others): (Vec<_>, Vec<_>) = tasks.into_iter().partition(touches);
    attempts.extend(losers.into_iter().rev().map(|task| BatchAttempt {
        tasks: vec![task],
        tries,
    }));
    attempts.push(BatchAttempt::first(others));
}

fn split_in_halves<S: Service>(mut tasks: Vec<Task<S>>, attempts: &mut Vec<BatchAttempt<S>>) {
    let second = tasks.split_off(tasks.len() / 2);
    attempts.push(BatchAttempt::first(second));
    attempts.push(BatchAttempt::first(tasks));
}

/// Whether a retry may succeed. Only errors in the data itself (a constraint, a value, an unreadable row) are
/// permanent.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "foreign errors: all that are not known to be permanent are retried"
)]
fn is_transient(error: &StoreError) -> bool {
    let StoreError::Database(error) = error else {
        return false;
    };
    match error {
        DbErr::Exec(RuntimeErr::SqlxError(error)) | DbErr::Query(RuntimeErr::SqlxError(error)) => {
            match &**error {
                sea_orm::sqlx::Error::Database(error) => {
                    !error.code().is_some_and(|code| is_data_error(&code))
                }
                _ => true,
            }
        }
        DbErr::ConnectionAcquire(_) | DbErr::Conn(_) => true,
        _ => false,
    }
}

/// SQLite: TOOBIG 18, CONSTRAINT 19, MISMATCH 20, ERROR 1 (an invalid statement), with extended codes in
/// the higher bits. Postgres: classes 22 (data), 23 (constraint), 42 (statement).
fn is_data_error(code: &str) -> bool {
    if code.len() == 5 {
        return ["22", "23", "42"]
            .iter()
            .any(|class| code.starts_with(class));
    }
    code.parse::<u32>()
        .is_ok_and(|code| matches!(code & 0xff, 1 | 18 | 19 | 20))
}
