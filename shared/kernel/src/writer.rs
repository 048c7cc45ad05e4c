//! The database thread: takes what is there, commits it as one batch, hands it to the publisher.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_bus::Bus;
use holdpoint_clock::Clock;
use holdpoint_contracts::problem::Problem;
use holdpoint_decision::Decider;
use holdpoint_store::{StoreError, TableWriter};
use sea_orm::{DbErr, RuntimeErr};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::activity::KernelStatus;
use crate::commit::{CommitInput, Committed, Fault, StateCache, commit, forget_alone};
use crate::crash::{self, Point};
use crate::dead_letters::requests::LetterCommand;
use crate::publisher::{Published, Publishing, Settled};
use crate::suspects::Suspects;
use crate::task::{Settlement, Task};
use crate::{KeyOf, Service, idempotency, outbox, split};

/// Commands of one batch; counted in commands, for one message may bring many.
const BATCH_COMMANDS_MAX: usize = 1_000;

/// Messages taken from the channel at once.
const TAKE_MAX: usize = 1_000;

/// How long a published outbox row may wait for the next commit before it is deleted by itself.
const FORGET_AFTER: Duration = Duration::from_millis(50);

/// How long an idle kernel whose database was away waits before it asks it again.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How often old idempotency keys are forgotten.
const TRIM_EVERY: TimeDelta = TimeDelta::hours(1);

/// How often a batch is tried again while the database is away, and how long it waits between.
const TRIES_MAX: u32 = 6;
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(100);

mod dead_letter;
mod isolation;
mod lost_commit;
mod replay;

/// Everything the database thread works with.
pub(crate) struct Writer<S: Service> {
    pub(crate) service: Arc<S>,
    pub(crate) db: TableWriter,
    /// Asked how much it takes; the publisher is the one who sends.
    pub(crate) bus: Bus,
    pub(crate) clock: Clock,
    pub(crate) memory: StateCache<S>,
    pub(crate) tasks: mpsc::Receiver<Task<S>>,
    pub(crate) publishing: mpsc::Sender<Publishing>,
    pub(crate) published: Published,
    /// This kernel's name on its outbox rows.
    pub(crate) owner: String,
    pub(crate) activity: KernelStatus,
    /// What may have ended the process before.
    pub(crate) suspects: Suspects,
    /// The digest of the input that is decided alone.
    pub(crate) suspect: Option<String>,
    /// What operators have done with dead letters.
    pub(crate) letters: mpsc::Receiver<LetterCommand>,
    /// The dead letter that is decided again.
    pub(crate) replayed: Option<i64>,
    /// The answer to a commit was lost: its outbox row may be there.
    pub(crate) may_have_committed: bool,
    /// When old idempotency keys are forgotten next.
    pub(crate) next_trim: Option<DateTime<Utc>>,
    /// What dead letters do to their aggregates: decided with the next batch.
    pub(crate) incidents: Vec<Task<S>>,
}

/// A batch in the making.
struct BatchAttempt<S: Service> {
    tasks: Vec<Task<S>>,
    tries: u32,
}

impl<S: Service> Writer<S> {
    /// Works until all senders of tasks are gone, then deletes what was published meanwhile.
    pub(crate) async fn run(mut self) {
        let mut backlog = Vec::new();
        loop {
            backlog.append(&mut self.incidents);
            if backlog.is_empty() && !self.take(&mut backlog).await {
                break;
            }
            self.activity.set_at_work(true);
            self.decide_isolated_ones(&mut backlog).await;
            let tasks = first_batch(&mut backlog);
            crash::pass(S::NAME, Point::Fetched, &verbs(&tasks));
            let (poison, tasks) = tasks.into_iter().partition(|task| task.poison.is_some());
            self.bury(poison, "the message cannot be read", None).await;
            self.process(tasks).await;
            self.trim_keys().await;
            self.handle_letters().await;
            self.suspects.tick(&self.db, self.clock.now()).await;
            self.activity.set_at_work(false);
        }
        // The publisher ends when nobody can send to it any more.
        self.publishing = mpsc::channel(1).0;
        self.published.wait_until_idle().await;
        self.forget().await;
        if let Err(error) = self.suspects.leave(&self.db).await {
            tracing::warn!(error = %chain(&error), "the next start will take this stop for an unclean exit");
        }
        if let Err(error) = self.db.close().await {
            tracing::warn!(%error, "the database was not closed cleanly");
        }
    }

    /// Waits for tasks; false once there will be no more.
    async fn take(&mut self, backlog: &mut Vec<Task<S>>) -> bool {
        loop {
            let isolation_due = self.suspects.due();
            let overdue = async {
                self.published.some().await;
                let is_away = !self.activity.database_answers();
                let wait = if is_away {
                    LOOK_AGAIN_AFTER
                } else {
                    FORGET_AFTER
                };
                tokio::time::sleep(wait).await;
            };
            tokio::select! {
                biased;
                taken = self.tasks.recv_many(backlog, TAKE_MAX) => return taken > 0,
                () = overdue => {
                    self.activity.set_at_work(true);
                    self.forget().await;
                    self.activity.set_at_work(false);
                }
                Some(command) = self.letters.recv() => {
                    self.activity.set_at_work(true);
                    self.handle_letter(command).await;
                    self.activity.set_at_work(false);
                }
                () = sleep_until(isolation_due) => self.suspects.tick(&self.db, self.clock.now()).await,
                () = tokio::time::sleep(LOOK_AGAIN_AFTER), if !self.activity.database_answers() => {
                    self.activity.set_database_answers(self.db.takes_writes().await);
                }
            }
        }
    }

    /// Commits a batch; what cannot be committed together is tried apart.
    async fn process(&mut self, tasks: Vec<Task<S>>) {
        let mut groups = vec![BatchAttempt { tasks, tries: 0 }];
        while let Some(group) = groups.pop() {
            self.activity.set_at_work(true);
            if group.tasks.is_empty() {
                continue;
            }
            self.publish_lost_commits().await;
            let through = self.published.drain();
            let verbs = verbs(&group.tasks);
            let bundle = CommitInput {
                tasks: &group.tasks,
                through: &through,
                now: self.clock.now(),
                owner: &self.owner,
                message_bytes_max: outbox::message_bytes_max(&self.bus),
                suspect: self.suspect.as_deref(),
                replayed: self.replayed,
                verbs: &verbs,
            };
            let committed = commit(&self.db, &*self.service, &mut self.memory, &bundle);
            match committed.await {
                Ok(committed) => {
                    self.activity.set_database_answers(true);
                    self.replayed = None;
                    if let Some(digest) = self.suspect.take() {
                        self.suspects.committed(&digest);
                    }
                    self.published.forgotten(&through);
                    self.hand_over(group.tasks, committed, verbs).await;
                }
                Err(fault) => {
                    self.published.put_back(through);
                    self.memory.hot.clear();
                    self.may_have_committed |= is_lost_answer(&fault);
                    self.part(group, fault, &mut groups).await;
                }
            }
        }
    }

    /// Decides how a batch that was not committed goes on.
    async fn part(
        &mut self,
        group: BatchAttempt<S>,
        fault: Fault<KeyOf<S>>,
        groups: &mut Vec<BatchAttempt<S>>,
    ) {
        let tries = group.tries + 1;
        match fault {
            Fault::Lost(keys) if tries < TRIES_MAX => {
                tracing::debug!(?keys, "somebody was faster; deciding again");
                part_losers(group.tasks, &keys, tries, groups);
            }
            Fault::Store(error) if is_transient(&error) && tries < TRIES_MAX => {
                // Said once; what comes of it is said, too.
                if self.activity.database_answers() {
                    tracing::warn!(error = %chain(&error), "the database is away or busy; trying again");
                }
                self.activity.set_database_answers(false);
                tokio::time::sleep(TRY_AGAIN_AFTER * tries).await;
                groups.push(BatchAttempt {
                    tasks: group.tasks,
                    tries,
                });
            }
            Fault::Taken if group.tasks.len() > 1 => part_halves(group.tasks, groups),
            Fault::Taken if tries < TRIES_MAX => groups.push(BatchAttempt {
                tasks: group.tasks,
                tries,
            }),
            Fault::Lost(_) | Fault::Taken => {
                self.give_up(group.tasks, "too many writers of the same rows")
                    .await;
            }
            Fault::Store(error) if is_transient(&error) => {
                self.give_up(group.tasks, &chain(&error)).await;
            }
            Fault::Store(error) if group.tasks.len() > 1 => {
                tracing::warn!(error = %chain(&error), tasks = group.tasks.len(), "a batch failed; trying its parts");
                part_halves(group.tasks, groups);
            }
            Fault::Store(error) if group.tasks.iter().any(is_partable) => {
                tracing::warn!(error = %chain(&error), "a message of many failed; trying its parts");
                for task in group.tasks {
                    let tasks = split::part(task);
                    // One was counted in, and each part is counted out.
                    let more = tasks.len().saturating_sub(1);
                    self.activity.in_flight.fetch_add(more, Ordering::AcqRel);
                    groups.push(BatchAttempt { tasks, tries: 0 });
                }
            }
            Fault::Store(error) => self.bury(group.tasks, &chain(&error), None).await,
        }
    }

    async fn hand_over(&self, tasks: Vec<Task<S>>, committed: Committed, verbs: Vec<String>) {
        let Committed {
            outbox,
            outgoing,
            desired_states,
            nudges,
            replies,
        } = committed;
        let settled = tasks
            .into_iter()
            .zip(replies)
            .map(|(task, body)| Settled {
                origin: task.origin,
                body: Some(body),
                settlement: Settlement::Done,
            })
            .collect();
        self.publish(Publishing {
            outbox,
            outgoing,
            desired_states,
            nudges,
            settled,
            verbs,
        })
        .await;
    }

    /// Nothing was done: callers may ask again, deliveries come again.
    async fn give_up(&self, tasks: Vec<Task<S>>, reason: &str) {
        tracing::error!(service = S::NAME, tasks = tasks.len(), reason, "put back");
        let problem = Problem::unavailable("the service's database is away or busy; try again");
        self.settle_all(tasks, &problem, Settlement::Again).await;
    }

    /// Forgets idempotency keys that are too old, now and then.
    async fn trim_keys(&mut self) {
        let now = self.clock.now();
        if self.next_trim.is_some_and(|next| now < next) {
            return;
        }
        self.next_trim = Some(now + TRIM_EVERY);
        if let Err(error) = idempotency::trim(&self.db, now).await {
            tracing::warn!(error = %chain(&error), "old idempotency keys stay for now");
        }
    }

    /// Deletes rows that have done their work.
    async fn forget(&self) {
        let through = self.published.drain();
        let forgotten = forget_alone(&self.db, &through).await;
        if forgotten.is_ok() {
            self.published.forgotten(&through);
        }
        self.activity.set_database_answers(forgotten.is_ok());
        if let Err(error) = forgotten {
            tracing::warn!(error = %chain(&error), "rows that have done their work could not be deleted; trying again");
            self.published.put_back(through);
        }
    }

    async fn publish(&self, publishing: Publishing) {
        self.published.begin(publishing.outbox);
        let tasks = publishing.settled.len();
        if self.publishing.send(publishing).await.is_err() {
            // Only while the process ends; the outbox row is published by the next one.
            tracing::warn!(
                service = S::NAME,
                "committed and left to the next start to publish"
            );
            self.published.end(None);
            self.activity.in_flight.fetch_sub(tasks, Ordering::AcqRel);
        }
    }
}

/// Ends at an instant; never where there is none.
async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Whether the batch may be committed all the same: the database did not answer.
fn is_lost_answer<K>(fault: &Fault<K>) -> bool {
    match fault {
        Fault::Store(error) => is_transient(error),
        Fault::Lost(_) | Fault::Taken => false,
    }
}

/// The verbs of a batch's commands, for crash points.
fn verbs<S: Service>(tasks: &[Task<S>]) -> Vec<String> {
    crash::verbs(tasks.iter().map(|task| task.raw.subject.as_str()))
}

/// Whether its inputs may go on alone.
fn is_partable<S: Service>(task: &Task<S>) -> bool {
    task.inputs.len() > 1 && !task.whole
}

/// Takes whole tasks until the batch is full, or an idempotency key comes again: the second is answered
/// from what the first has committed. What is all or none is a batch of its own.
fn first_batch<S: Service>(backlog: &mut Vec<Task<S>>) -> Vec<Task<S>> {
    let mut commands = 0;
    let mut asked = HashSet::new();
    let is_alone = backlog.first().is_some_and(|task| task.whole);
    let full = backlog.iter().enumerate().position(|(place, task)| {
        commands += task.inputs.len();
        let is_apart = place > 0 && (is_alone || task.whole);
        let key = task.asked.as_ref().map(|asked| asked.key.as_str());
        let is_again = key.is_some_and(|key| !asked.insert(key));
        is_apart || is_again || commands > BATCH_COMMANDS_MAX
    });
    // A single task above the limit still goes, alone.
    let rest = full.map(|place| backlog.split_off(place.max(1)));
    std::mem::replace(backlog, rest.unwrap_or_default())
}

/// Those who lost decide again alone; the others go on together. Groups are taken from the end.
fn part_losers<S: Service>(
    tasks: Vec<Task<S>>,
    keys: &[KeyOf<S>],
    tries: u32,
    groups: &mut Vec<BatchAttempt<S>>,
) {
    let keys: HashSet<_> = keys.iter().collect();
    let touches = |task: &Task<S>| {
        task.inputs
            .iter()
            .any(|input| keys.contains(&S::Domain::key(input)))
    };
    let (losers, others): (Vec<_>, Vec<_>) = tasks.into_iter().partition(touches);
    groups.extend(losers.into_iter().rev().map(|task| BatchAttempt {
        tasks: vec![task],
        tries,
    }));
    groups.push(BatchAttempt {
        tasks: others,
        tries: 0,
    });
}

fn part_halves<S: Service>(mut tasks: Vec<Task<S>>, groups: &mut Vec<BatchAttempt<S>>) {
    let second = tasks.split_off(tasks.len() / 2);
    groups.push(BatchAttempt {
        tasks: second,
        tries: 0,
    });
    groups.push(BatchAttempt { tasks, tries: 0 });
}

/// Whether the same may succeed later. Only what the data itself breaks (a constraint, a value, a row
/// that cannot be read) is the message's own fault; everything else may be mended meanwhile.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "foreign errors: what is not known to be the data's fault is tried again"
)]
fn is_transient(error: &StoreError) -> bool {
    let StoreError::Database(error) = error else {
        return false;
    };
    match error {
        DbErr::Exec(RuntimeErr::SqlxError(error)) | DbErr::Query(RuntimeErr::SqlxError(error)) => {
            match &**error {
                sea_orm::sqlx::Error::Database(error) => {
                    !error.code().is_some_and(|code| is_fault_of_data(&code))
                }
                _ => true,
            }
        }
        DbErr::ConnectionAcquire(_) | DbErr::Conn(_) => true,
        _ => false,
    }
}

/// SQLite: TOOBIG 18, CONSTRAINT 19, MISMATCH 20, ERROR 1 (a statement that cannot be), with the
/// extended codes above them. Postgres: classes 22 (data), 23 (constraint), 42 (statement).
fn is_fault_of_data(code: &str) -> bool {
    if code.len() == 5 {
        return ["22", "23", "42"]
            .iter()
            .any(|class| code.starts_with(class));
    }
    code.parse::<u32>()
        .is_ok_and(|code| matches!(code & 0xff, 1 | 18 | 19 | 20))
}

/// An error with everything that caused it, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
