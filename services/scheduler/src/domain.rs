//! The pure core: one timer, what can happen to it, and what follows.
//!
//! It never says what a due time means, and knows no clock, database or bus.

mod decide;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::scheduler::SetTimerReply;
use holdpoint_contracts::{executor, handoff, subject};
use holdpoint_ids::{Workspace, partition};
use serde::Serialize;

pub use decide::SchedulerDomain;
#[cfg(test)]
pub(crate) use decide::decide;

/// How far ahead timers are armed on the bus; the sweeper arms the others when they come near.
pub(crate) const HORIZON: TimeDelta = TimeDelta::hours(24);

/// A service that may set timers: one whose command stream is there to take what fires.
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

    /// The service of that name, if it may set timers.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// Names one timer. The workspace is part of it, so that none reaches into another.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub workspace: Workspace,
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

/// One timer as it is wanted, and what has become of that desired state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timer {
    pub key: Key,
    /// Rises with every change of the row.
    pub version: u64,
    /// Of the newest desired state.
    pub rev: u64,
    pub phase: Phase,
}

/// Where a timer stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Fires at this instant, and not before.
    Pending(DateTime<Utc>),
    /// Has fired; only a newer desired state sets it again.
    Fired,
    /// Not wanted; stays as a tombstone, so that an older desired state that comes late does nothing.
    Cleared,
}

/// What can happen to a timer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The owner says what it wants, level and not edge.
    Set {
        key: Key,
        /// Rises with every desired state; lower or equal changes nothing.
        rev: u64,
        /// When to fire; none: not at all.
        due: Option<DateTime<Utc>>,
    },
    /// The wheel says that its time has come.
    Due {
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
        key: Key,
        /// As it was set.
        rev: u64,
        /// When it was due.
        due: DateTime<Utc>,
    },
    /// Its bucket has to be armed; only for timers within the horizon.
    Arm {
        shard: u32,
        /// When it is due.
        due: DateTime<Utc>,
    },
}

/// What became of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Reply {
    /// To [`Input::Set`].
    Set(SetTimerReply),
    /// To [`Input::Due`]; nobody waits for it.
    Due(DueReply),
}

/// What became of a timer whose time is said to have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DueReply {
    /// It fired.
    Fired,
    /// Not yet, by the clock.
    Early,
    /// It has fired, was moved or is not wanted.
    Stale,
}

#[cfg(test)]
mod tests;
