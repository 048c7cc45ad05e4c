//! The end of a hold, and the executor's reply.

use chrono::{DateTime, Utc};
use holdpoint_ids::HoldId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{HandoffEvent, HoldOutcome};

/// How a hold was closed; sent again until the executor has acknowledged it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HoldClosed {
    pub id: HoldId,
    /// The version of the owner's row, for the acknowledgement. The executor decides by the instant and the deadline.
    pub rev: u64,
    pub outcome: HoldOutcome,
    /// The answer, the notes, the comment.
    #[serde(default)]
    pub data: Value,
    /// The user who decided; `service:scheduler` after a timeout.
    pub by: String,
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
    /// Earlier handoff events that the executor has not acknowledged, so that the run's history has them in order,
    /// whichever message arrives first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handoff_events: Vec<HandoffEvent>,
    /// A rung of its ladder ended it as its timeout would, perhaps before its deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_rung: Option<EndedByRung>,
    /// Of an approval: what the executor checks again before the call starts. None: it ended in another way, or before
    /// this field existed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalRecord>,
}

/// The votes of an approval, and how long it counts (S2-R4).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRecord {
    /// All that were needed, one for each user.
    pub votes: Vec<ApprovalVote>,
    /// Longest time in which the approval permits dispatches, in milliseconds from the decision. None: no policy
    /// limits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_ms: Option<u64>,
}

/// The vote of one user for an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalVote {
    pub by: String,
    /// The recipients of the request that named the user at the vote: `@user.<name>`, `@role.<name>`. Empty: the user
    /// voted with the right to decide any request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addressed_by: Vec<String>,
}

/// The rung that ended a hold, and the deadline at that time.
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
