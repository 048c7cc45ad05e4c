//! Commands and queries of the notification service: who is told what, and by which way.

use chrono::{DateTime, Utc};
use holdpoint_ids::HoldId;
use serde::{Deserialize, Serialize};

use crate::handoff::RequestView;
use crate::message::{Command, Reply};

/// Name of the service, as in subjects.
pub const SERVICE: &str = "notification";

/// What became of requests; one message a batch of the handoff service, sent again until it is
/// confirmed (M-5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoteRequests {
    /// At least one.
    pub facts: Vec<RequestFact>,
}
command!(NoteRequests, "note_requests", Vec<Reply<Noted>>, |it| it
    .facts
    .first()
    .map(|first| first.id.to_string())
    .unwrap_or_default());

/// One thing that happened to one request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestFact {
    /// Of which request.
    pub id: HoldId,
    /// The request's version after it: with the id, what this fact is known by. At most one fact a
    /// version; the same one again tells nobody twice.
    pub rev: u64,
    /// What happened.
    pub kind: FactKind,
    /// Who did it; none: time.
    pub by: Option<String>,
    /// When.
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
    /// Whom it concerns: `@user.<name>`, `@role.<name>`; empty: the workspace's owners. The reader
    /// knows who that is.
    pub to: Vec<String>,
    /// The request after it.
    pub request: Box<RequestView>,
}

/// What can happen to a request that somebody is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactKind {
    /// It is asked: those it is put to are told.
    Opened,
    /// Somebody has it now: that person is told.
    Assigned,
    /// A rung has fired, or its deadline passed: the rung's people are told.
    Escalated,
    /// Somebody took the run over: what was sent of it says so.
    TakenOver,
    /// It has ended by a person: what was sent of it says so; a callback is called.
    Decided,
    /// Time was up: as for decided.
    Expired,
    /// It is not wanted any more: as for decided.
    Withdrawn,
}

/// What the notification service says to one [`RequestFact`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Noted {
    /// It is stored, and those it concerns are told.
    Stored,
    /// It was known.
    Known,
}
