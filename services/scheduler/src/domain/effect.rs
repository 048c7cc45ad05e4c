//! The effects of a decision, and the reply to its input.

use chrono::{DateTime, Utc};
use holdpoint_contracts::scheduler::SetTimerReply;
use serde::Serialize;

use super::model::Key;

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
    /// To [`Input::Set`](super::input::Input::Set).
    Set(SetTimerReply),
    /// To [`Input::Due`](super::input::Input::Due); no caller waits for it.
    Due(DueReply),
}

/// The result of [`Input::Due`](super::input::Input::Due).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DueReply {
    Fired,
    /// The timer is not due by the clock.
    Early,
    /// The timer has fired, was changed or was withdrawn.
    Stale,
}
