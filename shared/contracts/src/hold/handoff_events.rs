//! What is done with a handoff that stands, for the history of its run.

use chrono::{DateTime, Utc};
use holdpoint_ids::HoldId;
use serde::{Deserialize, Serialize};

/// What was done with a run's handoff that stands, for the history of the run; sent again until the
/// executor has acknowledged it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffUpdate {
    /// The id.
    pub id: HoldId,
    /// Of the owner's row: everything up to it is among these, or was acknowledged before.
    pub rev: u64,
    /// At least one, in order. Those that the executor knows change nothing.
    pub handoff_events: Vec<HandoffEvent>,
}

/// One thing that was done with a handoff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffEvent {
    /// Version of the request that it made: rises, and tells it apart from any other.
    pub rev: u64,
    /// The kind.
    #[serde(rename = "do")]
    pub kind: HandoffEventKind,
    /// Who; `service:scheduler` where the ladder did.
    pub by: String,
    /// The instant.
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
    /// Whom it is addressed to since; empty if the assignee stays the same, or if it goes to the owners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// With [`HandoffEventKind::Timed`]: time from when it was asked, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
}

/// What was done with a handoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandoffEventKind {
    /// A user said that it is theirs.
    Accepted,
    /// The assignee changed.
    Reassigned,
    /// A person owns the run. With [`HoldOutcome::TakenOver`](super::HoldOutcome::TakenOver) that is the close itself; here it comes
    /// first where a later close has overtaken it.
    TakenOver,
    /// A policy says how long it waits, and its step does not: of every kind, and the run keeps the clock.
    Timed,
}

/// Reply of the executor to one [`HandoffUpdate`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandoffUpdateReply {
    /// The run's history has it.
    EventRecorded,
    /// The run, or the hold, had ended before.
    Stale,
}
