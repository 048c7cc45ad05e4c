//! The pure core: one timer, its inputs and its effects.
//!
//! It never decides what a due time means, and knows no clock, database or bus.

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

/// A service that may set timers and gets them back by a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// Timers of holds and leases (hold ids), and of nodes (`node_` and the name, in workspace `sys`).
    Executor,
    /// Timers of requests; their ids are hold ids.
    Handoff,
}

impl Owner {
    pub(crate) const ALL: [Self; 2] = [Self::Executor, Self::Handoff];

    /// The name in subjects and rows.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Executor => executor::SERVICE,
            Self::Handoff => handoff::SERVICE,
        }
    }

    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|owner| owner.name() == name)
    }
}

/// Identifies one timer. The workspace is part of it, so that no workspace can change another's timers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub workspace: Workspace,
    pub owner: Owner,
    pub id: String,
}

impl Key {
    #[expect(clippy::modulo_one, reason = "there is one shard for now")]
    pub(crate) fn shard(&self) -> u32 {
        partition(&self.id) % subject::TIMER_SHARDS
    }
}

/// One timer: its desired state and phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timer {
    pub key: Key,
    /// Rises with every change of the row.
    pub version: u64,
    pub rev: u64,
    pub phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Fires at this instant and not before.
    Pending(DateTime<Utc>),
    /// Has fired. Only a newer desired state sets it again.
    Fired,
    /// Withdrawn. Stays as a tombstone, so that an older desired state that arrives late does nothing.
    Cleared,
}

/// An input of a timer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The owner's desired state.
    Set {
        key: Key,
        /// A lower or equal one than the timer's changes nothing.
        rev: u64,
        /// `None`: withdrawn.
        due: Option<DateTime<Utc>>,
    },
    /// The wheel reports that the timer is due.
    Due {
        key: Key,
        /// As read by the wheel. A different one means that the timer was changed meanwhile.
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

/// An effect of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// A command notifies the owner.
    Fired {
        key: Key,
        rev: u64,
        due: DateTime<Utc>,
    },
    /// The bucket must be armed, for a timer within the horizon.
    Arm { shard: u32, due: DateTime<Utc> },
}

/// The reply to an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Reply {
    /// To [`Input::Set`].
    Set(SetTimerReply),
    /// To [`Input::Due`]; no caller waits for it.
    Due(DueReply),
}

/// The result of [`Input::Due`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DueReply {
    Fired,
    /// The timer is not due by the clock.
    Early,
    /// The timer has fired, was changed or was withdrawn.
    Stale,
}

#[cfg(test)]
mod tests;
