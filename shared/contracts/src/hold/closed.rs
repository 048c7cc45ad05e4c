//! How a hold was closed, and what the executor says to that.

use chrono::{DateTime, Utc};
use holdpoint_ids::HoldId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{HandoffEvent, HoldOutcome};

/// How a hold was closed; sent again until the executor has acknowledged it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HoldClosed {
    /// The id.
    pub id: HoldId,
    /// Of the owner's row, which its confirmation goes back to. The executor judges by what is said: by
    /// when it ended, and by which deadline.
    pub rev: u64,
    /// The outcome.
    pub outcome: HoldOutcome,
    /// The answer, the notes, the comment.
    #[serde(default)]
    pub data: Value,
    /// Who decided; `service:scheduler` when time did.
    pub by: String,
    /// The instant.
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
    /// What was done with a handoff before, as far as the executor has not confirmed it: so that a
    /// run's history has it in order, whichever message arrives first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handoff_events: Vec<HandoffEvent>,
    /// A rung of its ladder ended it as its timeout would, perhaps before its deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_rung: Option<EndedByRung>,
}

/// Which rung ended a hold, and what it knew of the deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedByRung {
    /// Time from when it was asked, in milliseconds.
    pub after_ms: u64,
    /// The deadline that it had then; none: there was none. Where that was moved since, the end does not
    /// count: its owner asks again, and its rungs count on.
    #[serde(default, with = "crate::instant::option")]
    pub deadline: Option<DateTime<Utc>>,
}

/// Reply of the executor to one [`HoldClosed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CloseReply {
    /// The run goes on with it.
    Applied,
    /// The run is paused: it takes effect on resume.
    OnResume,
    /// The run, or the hold, had ended before.
    RunEnded,
}
