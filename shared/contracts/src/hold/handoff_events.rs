//! Actions on an open handoff, for the history of its run.

use chrono::{DateTime, Utc};
use holdpoint_ids::HoldId;
use serde::{Deserialize, Serialize};

/// Actions on an open handoff, for the history of its run; sent again until the executor acknowledges it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffUpdate {
    pub id: HoldId,
    /// The version of the owner's row: every event up to it is contained or was acknowledged before.
    pub rev: u64,
    /// At least one, in order. Those that the executor knows change nothing.
    pub handoff_events: Vec<HandoffEvent>,
}

/// One action on a handoff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffEvent {
    /// Version of the request that it made: rises, and tells it apart from any other.
    pub rev: u64,
    #[serde(rename = "do")]
    pub kind: HandoffEventKind,
    /// The user; `service:scheduler` for the ladder.
    pub by: String,
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
    /// The new recipients; empty if the assignee stays the same, or if it goes to the owners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// With [`HandoffEventKind::Timed`]: time from when it was asked, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandoffEventKind {
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
