//! One batch, one transaction: load, decide, save, record, outbox, commit.

use std::collections::HashMap;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use holdpoint_bus::Outgoing;
use holdpoint_contracts::message::Reply;
use holdpoint_contracts::problem::{BATCH_ABORTED, Problem};
use holdpoint_decision::Decider;
use holdpoint_store::{StoreError, TableWriter, Transaction};
use serde::Serialize;

use crate::crash::{self, Point};
use crate::decide::{Batch, Decided};
use crate::desired_states::Unacknowledged;
use crate::idempotency::{self, Seen};
use crate::publisher::Through;
use crate::task::Task;
use crate::{
    Changed, FactOf, KeyOf, NeedOf, ReplyOf, Service, StateOf, dead_letters, desired_states,
    outbox, suspects,
};

/// Aggregates that are kept in memory between batches.
const HOT_STATES_MAX: usize = 50_000;

/// Constant facts that are kept in memory.
const CONSTANTS_MAX: usize = 10_000;

/// The writer's memory: valid while this process alone writes the tables.
pub(crate) struct StateCache<S: Service> {
    /// States; none: there is no such row.
    pub(crate) hot: HashMap<KeyOf<S>, Option<StateOf<S>>>,
    pub(crate) constants: HashMap<NeedOf<S>, FactOf<S>>,
    pub(crate) exclusive: bool,
}

impl<S: Service> StateCache<S> {
    pub(crate) fn new(exclusive: bool) -> Self {
        Self {
            hot: HashMap::new(),
            constants: HashMap::new(),
            exclusive,
        }
    }

    fn trim(&mut self) {
        if self.hot.len() > HOT_STATES_MAX {
            self.hot.clear();
        }
        if self.constants.len() > CONSTANTS_MAX {
            self.constants.clear();
        }
    }
}

/// Why a batch was not committed; nothing of it has happened.
#[derive(Debug)]
pub(crate) enum Fault<K> {
    /// Somebody else wrote these first.
    Lost(Vec<K>),
    /// Somebody else used the idempotency key of one of them meanwhile: it has an answer by now.
    Taken,
    /// The database refused.
    Store(StoreError),
}

impl<K, E: Into<StoreError>> From<E> for Fault<K> {
    fn from(error: E) -> Self {
        Self::Store(error.into())
    }
}

/// What a committed batch leaves to be done.
pub(crate) struct Committed {
    /// The outbox row that keeps `outgoing`.
    pub(crate) outbox: Option<i64>,
    pub(crate) outgoing: Vec<Outgoing>,
    /// Each a row until its receiver has confirmed it.
    pub(crate) desired_states: Vec<Unacknowledged>,
    pub(crate) nudges: Vec<(String, Bytes)>,
    /// One body for each task of the batch.
    pub(crate) replies: Vec<Bytes>,
}

/// What is to be committed together.
pub(crate) struct CommitInput<'b, S: Service> {
    pub(crate) tasks: &'b [Task<S>],
    /// Rows that have done their work: deleted in the same transaction.
    pub(crate) through: &'b Through,
    pub(crate) now: DateTime<Utc>,
    /// Whose outbox row it will be.
    pub(crate) owner: &'b str,
    /// Largest message that the bus takes.
    pub(crate) message_bytes_max: usize,
    /// The digest under which the one input is noted as a suspect: not any more once it is committed.
    pub(crate) suspect: Option<&'b str>,
    /// The dead letter that is decided again: it is gone once that is committed.
    pub(crate) replayed: Option<i64>,
    /// For crash points only.
    pub(crate) verbs: &'b [String],
}

/// Commits a batch of tasks, or nothing of it.
pub(crate) async fn commit<S: Service>(
    db: &TableWriter,
    service: &S,
    memory: &mut StateCache<S>,
    bundle: &CommitInput<'_, S>,
) -> Result<Committed, Fault<KeyOf<S>>> {
    let CommitInput {
        tasks,
        through,
        now,
        owner,
        message_bytes_max,
        suspect,
        replayed,
        verbs,
    } = *bundle;
    let tx = db.begin().await?;
    forget(&tx, through, (suspect, replayed)).await?;
    let seen = idempotency::seen(&tx, tasks.iter().filter_map(|task| task.asked.as_ref())).await?;
    let StateCache {
        hot,
        constants,
        exclusive,
    } = memory;
    let mut batch = Batch {
        service,
        slots: HashMap::new(),
        found: HashMap::new(),
        constants,
        effects: Vec::new(),
        now,
    };
    let fresh: Vec<_> = tasks
        .iter()
        .map(|task| seen.answer(task.asked.as_ref()).is_none())
        .collect();
    let inputs: Vec<_> = tasks
        .iter()
        .zip(&fresh)
        .filter(|(_, fresh)| **fresh)
        .flat_map(|(task, _)| &task.inputs)
        .collect();
    let mut cached = |key: &KeyOf<S>| if *exclusive { hot.remove(key) } else { None };
    let answers = batch.decide_all(&tx, &inputs, &mut cached).await?;
    let answers = all_or_none(tasks, &mut batch, answers);
    save(&tx, service, &batch, now).await?;
    let replies = replies::<S>(tasks, &seen, answers);
    if !idempotency::remember(&tx, tasks, &fresh, &replies, now).await? {
        return Err(Fault::Taken);
    }
    let desired_states =
        desired_states::keep(&tx, service.desired_states(&batch.effects), now).await?;
    let outgoing = service.messages(&batch.effects);
    let row = outbox::row(&outgoing, owner, message_bytes_max, now)?;
    crash::pass(S::NAME, Point::Decided, verbs);
    let outbox = outbox::commit_with(tx, row).await?;
    crash::pass(S::NAME, Point::Committed, verbs);
    let nudges = service.nudges(&batch.effects);
    let slots = batch.slots;
    if memory.exclusive {
        let kept = slots.into_iter().filter(|(key, slot)| {
            let absent = || S::Domain::caches_absence(key);
            slot.state.as_ref().map_or_else(absent, S::Domain::is_hot)
        });
        memory.hot.extend(kept.map(|(key, slot)| (key, slot.state)));
    }
    memory.trim();
    Ok(Committed {
        outbox,
        outgoing,
        desired_states,
        nudges,
        replies: replies.into_iter().map(|reply| reply.body).collect(),
    })
}

/// Of a message that is all or none nothing is left where one of its inputs was refused. Such a
/// message is a batch of its own.
fn all_or_none<S: Service>(
    tasks: &[Task<S>],
    batch: &mut Batch<'_, S>,
    answers: Vec<Decided<S>>,
) -> Vec<Decided<S>> {
    let is_whole = tasks.iter().any(|task| task.whole);
    if !is_whole || answers.iter().all(Result::is_ok) {
        return answers;
    }
    batch.undo();
    let none = |_undone| {
        let detail = "not done, because another one of the same request was refused";
        Err(Problem::new(409, BATCH_ABORTED, detail))
    };
    answers
        .into_iter()
        .map(|answer| answer.and_then(none))
        .collect()
}

/// Deletes what has done its work.
async fn forget(
    tx: &Transaction,
    through: &Through,
    (suspect, replayed): (Option<&str>, Option<i64>),
) -> Result<(), StoreError> {
    if let Some(letter) = replayed {
        dead_letters::remove(tx, letter).await?;
    }
    if let Some(digest) = suspect {
        suspects::forget(tx, digest).await?;
    }
    outbox::forget(tx, &through.outbox).await?;
    desired_states::forget(tx, &through.desired_states).await
}

/// Deletes what has done its work, in a commit of its own.
pub(crate) async fn forget_alone(db: &TableWriter, through: &Through) -> Result<(), StoreError> {
    let tx = db.begin().await?;
    forget(&tx, through, (None, None)).await?;
    tx.commit().await
}

async fn save<S: Service>(
    tx: &Transaction,
    service: &S,
    batch: &Batch<'_, S>,
    now: DateTime<Utc>,
) -> Result<(), Fault<KeyOf<S>>> {
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
    // In one order, so that two replicas that write the same rows do not wait for each other.
    changed.sort_by(|one, other| one.key.cmp(other.key));
    let losers = service.save(tx, &changed, now).await?;
    if !losers.is_empty() {
        return Err(Fault::Lost(losers));
    }
    service.record(tx, &batch.effects, now).await?;
    Ok(())
}

/// The answer to one task.
pub(crate) struct TaskReply {
    pub(crate) body: Bytes,
    /// Whether it was done; only that is remembered under an idempotency key.
    pub(crate) is_ok: bool,
}

fn replies<S: Service>(tasks: &[Task<S>], seen: &Seen, answers: Vec<Decided<S>>) -> Vec<TaskReply> {
    let mut answers = answers.into_iter();
    tasks
        .iter()
        .map(|task| match seen.answer(task.asked.as_ref()) {
            Some(body) => TaskReply { body, is_ok: false },
            None if task.many => {
                let list: Vec<_> = answers
                    .by_ref()
                    .take(task.inputs.len())
                    .map(Reply::from)
                    .collect();
                let is_done = |reply: &Reply<ReplyOf<S>>| matches!(reply, Reply::Ok(_));
                TaskReply {
                    is_ok: !task.whole || list.iter().all(is_done),
                    body: write(&Reply::Ok(list)),
                }
            }
            None => {
                let answer = answers
                    .next()
                    .map_or_else(|| Reply::Problem(Problem::internal()), Reply::from);
                TaskReply {
                    is_ok: matches!(answer, Reply::Ok(_)),
                    body: write(&answer),
                }
            }
        })
        .collect()
}

/// A reply as JSON; a body that cannot be written is a fault of ours and is told as one.
pub(crate) fn write<T: Serialize>(reply: &T) -> Bytes {
    serde_json::to_vec(reply).map_or_else(
        |error| {
            tracing::error!(%error, "an answer that cannot be written");
            Bytes::from_static(
                br#"{"problem":{"status":500,"code":"internal","detail":"an answer that cannot be written"}}"#,
            )
        },
        Bytes::from,
    )
}
