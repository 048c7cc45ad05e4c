//! One batch, one transaction: load, decide, save, record, outbox, commit.

use std::collections::HashMap;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use holdpoint_contracts::message::Reply;
use holdpoint_contracts::problem::{BATCH_ABORTED, Problem};
use holdpoint_decision::Decider;
use holdpoint_store::crash::{self, Point};
use holdpoint_store::{StoreError, TableWriter, Transaction};

use super::batch::{Batch, InputReply, Slot};
use super::delayed_replies::{DelayedReplies, DelayedReply};
use crate::completion::Completed;
use crate::idempotency::{self, KnownKeys};
use crate::outbox::publisher::CommittedBatch;
use crate::reply::{TaskReply, reply_json};
use crate::service::{Changed, FactOf, KeyOf, NeedOf, ReplyOf, Service, StateOf};
use crate::task::Task;
use crate::{dead_letters, desired_states, outbox, suspects};

/// Aggregates that stay in memory between batches.
const STATES_MAX: usize = 50_000;

/// Constant facts that stay in memory.
const CONSTANTS_MAX: usize = 10_000;

/// The writer's cache. States are cached only while this process alone writes the tables.
pub(crate) struct StateCache<S: Service> {
    /// `None`: there is no such row.
    states: HashMap<KeyOf<S>, Option<StateOf<S>>>,
    constants: HashMap<NeedOf<S>, FactOf<S>>,
    is_exclusive: bool,
}

impl<S: Service> StateCache<S> {
    pub(crate) fn new(is_exclusive: bool) -> Self {
        Self {
            states: HashMap::new(),
            constants: HashMap::new(),
            is_exclusive,
        }
    }

    /// Drops all states: after a failed commit they may differ from the tables.
    pub(super) fn clear_states(&mut self) {
        self.states.clear();
    }

    /// Keeps the committed states that are likely to be read soon.
    fn keep(&mut self, slots: HashMap<KeyOf<S>, Slot<S>>) {
        if self.is_exclusive {
            let kept = slots.into_iter().filter(|(key, slot)| {
                let absent = || S::Domain::caches_absence(key);
                slot.state.as_ref().map_or_else(absent, S::Domain::is_hot)
            });
            self.states
                .extend(kept.map(|(key, slot)| (key, slot.state)));
        }
        self.trim();
    }

    fn trim(&mut self) {
        if self.states.len() > STATES_MAX {
            self.states.clear();
        }
        if self.constants.len() > CONSTANTS_MAX {
            self.constants.clear();
        }
    }
}

/// Why a batch was not committed. Nothing of it has happened.
#[derive(Debug)]
pub(super) enum CommitError<K> {
    /// Another writer changed these aggregates first.
    Conflict(Vec<K>),
    /// Another writer used one of the idempotency keys meanwhile, so that the key has a reply by now.
    KeyReused,
    /// The database refused.
    Store(StoreError),
}

impl<K, E: Into<StoreError>> From<E> for CommitError<K> {
    fn from(error: E) -> Self {
        Self::Store(error.into())
    }
}

/// What is committed together.
pub(super) struct CommitInput<'b, S: Service> {
    pub(super) tasks: &'b [Task<S>],
    /// Rows that the same transaction deletes.
    pub(super) completed: &'b Completed,
    pub(super) now: DateTime<Utc>,
    /// The owner of the outbox row.
    pub(super) owner: &'b str,
    /// Largest message that the bus accepts.
    pub(super) message_bytes_max: usize,
    /// The digest under which the only input is noted as a suspect; the transaction deletes the note.
    pub(super) suspect: Option<&'b str>,
    /// The dead letter that is replayed; the transaction deletes it.
    pub(super) replayed: Option<i64>,
    /// For crash points.
    pub(super) verbs: &'b [String],
}

/// Commits a batch of tasks, or nothing of it. Returns what is to be sent, and a reply per task. A reply that waits
/// for its effect is missing.
///
/// A batch must not contain the same idempotency key twice (the second is answered from the row of the
/// first), and an atomic task must be the only one.
pub(super) async fn commit<S: Service>(
    db: &TableWriter,
    service: &S,
    cache: &mut StateCache<S>,
    delayed: &mut DelayedReplies<S>,
    input: &CommitInput<'_, S>,
) -> Result<(CommittedBatch, Vec<Option<Bytes>>), CommitError<KeyOf<S>>> {
    let (tasks, now) = (input.tasks, input.now);
    let tx = db.begin().await?;
    if let Some(id) = input.replayed {
        dead_letters::remove(&tx, id).await?;
    }
    if let Some(digest) = input.suspect {
        suspects::forget(&tx, digest).await?;
    }
    delete_completed(&tx, input.completed).await?;
    let keys = tasks
        .iter()
        .filter_map(|task| task.idempotency_key.as_ref());
    let known = idempotency::load(&tx, keys).await?;
    let mut batch = Batch {
        service,
        slots: HashMap::new(),
        found: HashMap::new(),
        constants: &mut cache.constants,
        effects: Vec::new(),
        now,
    };
    let inputs: Vec<_> = tasks
        .iter()
        .filter(|task| !known.contains(task.idempotency_key.as_ref()))
        .flat_map(|task| &task.inputs)
        .collect();
    let (states, is_exclusive) = (&mut cache.states, cache.is_exclusive);
    let mut cached = |key: &KeyOf<S>| {
        if is_exclusive {
            states.remove(key)
        } else {
            None
        }
    };
    let input_replies = batch.decide_all(&tx, &inputs, &mut cached).await?;
    let input_replies = abort_if_refused(tasks, &mut batch, input_replies);
    save(&tx, service, &batch, now).await?;
    let replies = task_replies::<S>(tasks, &known, input_replies);
    if !idempotency::store(&tx, tasks, &known, &replies, now).await? {
        return Err(CommitError::KeyReused);
    }
    let desired_states = service.desired_states(&batch.effects);
    let desired_states = desired_states::rows::store(&tx, desired_states, now).await?;
    let messages = service.messages(&batch.effects);
    let row = outbox::rows::new_row(&messages, input.owner, input.message_bytes_max, now)?;
    crash::pass(S::NAME, Point::Decided, input.verbs);
    let row = outbox::rows::commit_with(tx, row).await?;
    crash::pass(S::NAME, Point::Committed, input.verbs);
    let replies = tasks
        .iter()
        .zip(replies)
        .map(|(task, reply)| delayed.delay(task, reply))
        .collect();
    let committed = CommittedBatch {
        row,
        messages,
        desired_states,
        nudges: service.nudges(&batch.effects),
        delayed_replies: complete_replies(&batch, delayed),
        ..CommittedBatch::default()
    };
    let slots = batch.slots;
    cache.keep(slots);
    Ok((committed, replies))
}

/// The delayed replies that the decisions of a batch complete.
fn complete_replies<S: Service>(
    batch: &Batch<'_, S>,
    delayed: &mut DelayedReplies<S>,
) -> Vec<DelayedReply> {
    if delayed.is_empty() {
        return Vec::new();
    }
    let changed = batch.slots.iter().filter(|(_, slot)| slot.changed);
    let changed = changed.filter_map(|(key, slot)| Some((key, slot.state.as_ref()?)));
    changed
        .flat_map(|(key, state)| delayed.complete(key, state))
        .collect()
}

/// Discards all decisions about an atomic task if one of its inputs was refused.
fn abort_if_refused<S: Service>(
    tasks: &[Task<S>],
    batch: &mut Batch<'_, S>,
    replies: Vec<InputReply<S>>,
) -> Vec<InputReply<S>> {
    let is_atomic = tasks.iter().any(|task| task.atomic);
    if !is_atomic || replies.iter().all(Result::is_ok) {
        return replies;
    }
    batch.discard_decisions();
    let abort = |_undone| {
        let detail = "not done, because another item of the same request was refused";
        Err(Problem::new(409, BATCH_ABORTED, detail))
    };
    replies
        .into_iter()
        .map(|reply| reply.and_then(abort))
        .collect()
}

async fn delete_completed(tx: &Transaction, completed: &Completed) -> Result<(), StoreError> {
    outbox::rows::delete(tx, &completed.outbox).await?;
    desired_states::rows::delete(tx, &completed.desired_states).await
}

/// Deletes completed rows in a separate transaction, for an idle kernel.
pub(super) async fn delete_completed_alone(
    db: &TableWriter,
    completed: &Completed,
) -> Result<(), StoreError> {
    let tx = db.begin().await?;
    delete_completed(&tx, completed).await?;
    tx.commit().await
}

async fn save<S: Service>(
    tx: &Transaction,
    service: &S,
    batch: &Batch<'_, S>,
    now: DateTime<Utc>,
) -> Result<(), CommitError<KeyOf<S>>> {
    let mut changed: Vec<Changed<'_, S::Domain>> = batch
        .slots
        .iter()
        .filter(|(_, slot)| slot.changed)
        .filter_map(|(key, slot)| {
            Some(Changed {
                key,
                state: slot.state.as_ref()?,
                read_version: slot.read_version,
            })
        })
        .collect();
    // Always in the same order, so that two replicas that write the same rows cannot deadlock.
    changed.sort_by(|one, other| one.key.cmp(other.key));
    let conflicts = service.save(tx, &changed, now).await?;
    if !conflicts.is_empty() {
        return Err(CommitError::Conflict(conflicts));
    }
    service.record(tx, &batch.effects, now).await?;
    Ok(())
}

fn task_replies<S: Service>(
    tasks: &[Task<S>],
    known: &KnownKeys,
    input_replies: Vec<InputReply<S>>,
) -> Vec<TaskReply<S>> {
    let mut input_replies = input_replies.into_iter().map(Reply::from);
    let is_ok = |reply: &Reply<ReplyOf<S>>| matches!(reply, Reply::Ok(_));
    tasks
        .iter()
        .map(|task| match known.reply(task.idempotency_key.as_ref()) {
            Some(body) => TaskReply {
                body,
                is_ok: false,
                incomplete: None,
            },
            None if task.many => {
                let list: Vec<_> = input_replies.by_ref().take(task.inputs.len()).collect();
                TaskReply {
                    is_ok: !task.atomic || list.iter().all(is_ok),
                    body: reply_json(&Reply::Ok(list)),
                    incomplete: None,
                }
            }
            None => {
                let reply = input_replies.next();
                let reply = reply.unwrap_or_else(|| Reply::Problem(Problem::internal()));
                TaskReply {
                    is_ok: is_ok(&reply),
                    body: reply_json(&reply),
                    incomplete: Result::from(reply).ok().filter(S::Domain::is_incomplete),
                }
            }
        })
        .collect()
}
