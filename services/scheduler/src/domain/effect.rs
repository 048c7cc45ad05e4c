//! What a decision about a timer causes, and its reply.

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::ScheduledStart;
use holdpoint_contracts::scheduler::{ScheduleView, SetTimerReply};
use serde::Serialize;

use super::model::Key;

#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// A command notifies the owner.
    Fired {
        key: Key,
        rev: u64,
        due: DateTime<Utc>,
    },
    /// The bucket must be armed, for a timer within the horizon.
    Arm { shard: u32, due: DateTime<Utc> },
    /// A schedule has fired: the executor starts a run. A later fire of the schedule replaces it.
    Start {
        key: Key,
        rev: u64,
        start: Box<ScheduledStart>,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Reply {
    /// To [`Set`](super::Input::Set).
    Set(SetTimerReply),
    /// To [`Due`](super::Input::Due); no caller waits for it.
    Due(DueReply),
    /// To [`PutSchedule`](super::Input::PutSchedule).
    Schedule(Box<ScheduleView>),
    /// To any other input: it is done.
    Nothing(()),
}

/// The result of [`Due`](super::Input::Due).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DueReply {
    Fired,
    /// The timer is not due by the clock.
    Early,
    /// The timer has fired, was changed or was withdrawn.
    Stale,
}
