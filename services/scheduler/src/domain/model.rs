//! The state of a timer. A timer of a schedule contains the schedule.

pub(crate) mod schedule;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::subject;
use holdpoint_ids::{Workspace, partition};
use strum::{Display, EnumString};

use schedule::Schedule;

/// How far ahead timers are armed on the bus; the sweeper arms the others when they come near.
pub(crate) const HORIZON: TimeDelta = TimeDelta::hours(24);

/// A service that may set timers and gets them back by a command. Subjects and rows contain its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Display, EnumString)]
#[strum(serialize_all = "snake_case")]
pub enum Owner {
    /// Timers of holds and leases (hold ids), and of nodes (`node_` and the name, in workspace `sys`).
    Executor,
    /// Timers of requests; their ids are hold ids.
    Handoff,
    /// Timers of schedules; their ids are the names. No message sets them.
    Scheduler,
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
#[derive(Debug, Clone, PartialEq)]
pub struct Timer {
    pub key: Key,
    /// Rises with every change of the row.
    pub version: u64,
    pub rev: u64,
    pub phase: Phase,
    /// For the owner [`Owner::Scheduler`], unless the schedule was deleted.
    pub schedule: Option<Box<Schedule>>,
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
