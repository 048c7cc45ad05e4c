//! What can happen to a timer or a schedule.

use chrono::{DateTime, Utc};
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::scheduler::ScheduleSpec;
use holdpoint_ids::ScheduleName;

use super::model::Key;
use super::model::schedule::StartAnswer;

#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// The owner's desired state.
    Set {
        key: Key,
        /// If it is not higher than the timer's `rev`, nothing changes.
        rev: u64,
        /// `None`: withdrawn.
        due: Option<DateTime<Utc>>,
    },
    /// The wheel reports that the timer is due.
    Due {
        key: Key,
        /// As read by the wheel. Another one means that the timer was changed since.
        rev: u64,
    },
    /// An operator creates or changes a schedule.
    PutSchedule(Box<SchedulePut>),
    /// An operator deletes a schedule.
    DeleteSchedule { key: Key, name: ScheduleName },
    /// The executor has answered the start of a fire.
    StartAnswered {
        key: Key,
        /// Of the start.
        rev: u64,
        answer: StartAnswer,
    },
}

/// The schedule that an operator wants.
#[derive(Debug, Clone, PartialEq)]
pub struct SchedulePut {
    pub key: Key,
    pub spec: ScheduleSpec,
    pub by: Actor,
}

impl Input {
    pub(crate) fn key(&self) -> &Key {
        match self {
            Self::Set { key, .. }
            | Self::Due { key, .. }
            | Self::DeleteSchedule { key, .. }
            | Self::StartAnswered { key, .. } => key,
            Self::PutSchedule(put) => &put.key,
        }
    }
}
