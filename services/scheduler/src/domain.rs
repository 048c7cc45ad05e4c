//! The pure core: one alarm, what can happen to it, and what follows.
//!
//! It never says what a due time means, and knows no clock, database or bus.

mod decide;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::scheduler::SetAnswer;
use holdpoint_contracts::{executor, handoff, subject};
use holdpoint_ids::{Workspace, partition};
use serde::Serialize;

pub(crate) use decide::decide;

/// How far ahead alarms are armed on the bus; the sweeper arms the others when they come near.
pub(crate) const HORIZON: TimeDelta = TimeDelta::hours(24);

/// A service that may set alarms: one whose command stream is there to take what fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// Alarms of holds and leases (hold ids), and of nodes (`node_` and the name, in workspace `sys`).
    Executor,
    /// Alarms of requests; their ids are hold ids.
    Handoff,
}

impl Owner {
    /// Each there is.
    pub(crate) const ALL: [Self; 2] = [Self::Executor, Self::Handoff];

    /// Its name, as in subjects and rows.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Executor => executor::SERVICE,
            Self::Handoff => handoff::SERVICE,
        }
    }

    /// The service of that name, if it may set alarms.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// Names one alarm. The workspace is part of it, so that none reaches into another.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Whose.
    pub workspace: Workspace,
    /// Who is told.
    pub owner: Owner,
    /// The owner's id for it.
    pub id: String,
}

impl Key {
    /// The shard whose buckets it falls into.
    #[expect(clippy::modulo_one, reason = "there is one shard for now")]
    pub(crate) fn shard(&self) -> u32 {
        partition(&self.id) % subject::TIMER_SHARDS
    }
}

/// One alarm as it is wanted, and what has become of that wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    /// Which.
    pub key: Key,
    /// Rises with every change of the row.
    pub version: u64,
    /// Of the newest wish.
    pub rev: u64,
    /// Where it stands.
    pub phase: Phase,
}

/// Where an alarm stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Fires at this instant, and not before.
    Pending(DateTime<Utc>),
    /// Has fired; only a newer wish sets it again.
    Fired,
    /// Not wanted; stays as a tombstone, so that an older wish that comes late does nothing.
    Cleared,
}

/// What can happen to an alarm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The owner says what it wants, level and not edge.
    Set {
        /// Which alarm.
        key: Key,
        /// Rises with every wish; lower or equal changes nothing.
        rev: u64,
        /// When to fire; none: not at all.
        due: Option<DateTime<Utc>>,
    },
    /// The wheel says that its time has come.
    Due {
        /// Which alarm.
        key: Key,
        /// As it was read; another one means that it was moved meanwhile.
        rev: u64,
    },
}

impl Input {
    pub(crate) fn key(&self) -> &Key {
        match self {
            Self::Set { key, .. } | Self::Due { key, .. } => key,
        }
    }
}

/// What follows from a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// The owner is told, by a command.
    Fired {
        /// Which alarm.
        key: Key,
        /// As it was set.
        rev: u64,
        /// When it was due.
        due: DateTime<Utc>,
    },
    /// Its bucket has to be armed; only for alarms within the horizon.
    Arm {
        /// Which shard.
        shard: u32,
        /// When it is due.
        due: DateTime<Utc>,
    },
}

/// What became of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// To [`Input::Set`].
    Wish(SetAnswer),
    /// To [`Input::Due`]; nobody waits for it.
    Due(DueAnswer),
}

/// What became of an alarm whose time is said to have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DueAnswer {
    /// It fired.
    Fired,
    /// Not yet, by the clock.
    Early,
    /// It has fired, was moved or is not wanted.
    Stale,
}

/// A new state, and what goes with it; none where nothing changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) change: Option<(Alarm, Vec<Effect>)>,
    pub(crate) answer: Answer,
}

#[cfg(test)]
mod tests;
