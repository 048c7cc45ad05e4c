//! What happened to a run, numbered without gaps.

use chrono::{DateTime, Utc};
use holdpoint_ids::RunId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What kind of thing happened; the words of the API page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventType {
    /// The run was accepted.
    #[serde(rename = "run.started")]
    RunStarted,
    /// A hold was opened and keeps the run.
    #[serde(rename = "run.waiting")]
    RunWaiting,
    /// A hold ended, or the last pause was lifted.
    #[serde(rename = "run.resumed")]
    RunResumed,
    /// An operator paused it.
    #[serde(rename = "run.paused")]
    RunPaused,
    /// It needs an answer from a person.
    #[serde(rename = "run.awaiting_input")]
    RunAwaitingInput,
    /// A question of it was answered.
    #[serde(rename = "input.answered")]
    InputAnswered,
    /// People are asked to take it over for a while (S0-AC6).
    #[serde(rename = "handoff.offered")]
    HandoffOffered,
    /// A user has said that it is theirs.
    #[serde(rename = "handoff.accepted")]
    HandoffAccepted,
    /// It was given to another user: by a person, by its ladder, or because the assignee is not active.
    #[serde(rename = "handoff.reassigned")]
    HandoffReassigned,
    /// A person owns the run: the agent is fenced off (S0-AC7).
    #[serde(rename = "handoff.taken_over")]
    HandoffTakenOver,
    /// A person has done it (S0-T3).
    #[serde(rename = "handoff.completed")]
    HandoffCompleted,
    /// No user did it in time.
    #[serde(rename = "handoff.expired")]
    HandoffExpired,
    /// It is not wanted any more, or no user there may do it.
    #[serde(rename = "handoff.withdrawn")]
    HandoffWithdrawn,
    /// A message about it could not be handled and lies among the dead letters.
    #[serde(rename = "run.incident")]
    RunIncident,
    /// All steps ended.
    #[serde(rename = "run.completed")]
    RunCompleted,
    /// It failed.
    #[serde(rename = "run.failed")]
    RunFailed,
    /// A user ended it.
    #[serde(rename = "run.cancelled")]
    RunCancelled,
    /// A step was dispatched (S2-R11).
    #[serde(rename = "step.called")]
    StepCalled,
    /// A step's result came.
    #[serde(rename = "step.succeeded")]
    StepSucceeded,
    /// A step failed.
    #[serde(rename = "step.failed")]
    StepFailed,
    /// A condition did not hold; `data.values` has the values seen.
    #[serde(rename = "step.skipped")]
    StepSkipped,
    /// A result came too late; kept as evidence, never applied.
    #[serde(rename = "step.late_result")]
    StepLateResult,
}

impl EventType {
    /// Every type, in the order of the API page.
    pub const ALL: [Self; 22] = [
        Self::RunStarted,
        Self::RunWaiting,
        Self::RunResumed,
        Self::RunPaused,
        Self::RunAwaitingInput,
        Self::RunCompleted,
        Self::RunFailed,
        Self::RunCancelled,
        Self::StepCalled,
        Self::StepSucceeded,
        Self::StepFailed,
        Self::StepSkipped,
        Self::StepLateResult,
        Self::InputAnswered,
        Self::HandoffOffered,
        Self::HandoffAccepted,
        Self::HandoffReassigned,
        Self::HandoffTakenOver,
        Self::HandoffCompleted,
        Self::HandoffExpired,
        Self::HandoffWithdrawn,
        Self::RunIncident,
    ];

    /// The word in bodies, rows and streams.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RunStarted => "run.started",
            Self::RunWaiting => "run.waiting",
            Self::RunResumed => "run.resumed",
            Self::RunPaused => "run.paused",
            Self::RunAwaitingInput => "run.awaiting_input",
            Self::RunCompleted => "run.completed",
            Self::RunFailed => "run.failed",
            Self::RunCancelled => "run.cancelled",
            Self::StepCalled => "step.called",
            Self::StepSucceeded => "step.succeeded",
            Self::StepFailed => "step.failed",
            Self::StepSkipped => "step.skipped",
            Self::StepLateResult => "step.late_result",
            Self::InputAnswered => "input.answered",
            Self::HandoffOffered => "handoff.offered",
            Self::HandoffAccepted => "handoff.accepted",
            Self::HandoffReassigned => "handoff.reassigned",
            Self::HandoffTakenOver => "handoff.taken_over",
            Self::HandoffCompleted => "handoff.completed",
            Self::HandoffExpired => "handoff.expired",
            Self::HandoffWithdrawn => "handoff.withdrawn",
            Self::RunIncident => "run.incident",
        }
    }
}

impl std::fmt::Display for EventType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryItem {
    /// From 1, without gaps within a run; also the id of the live event.
    pub seq: u64,
    /// The type.
    #[serde(rename = "type")]
    pub kind: EventType,
    /// When, by the executor's clock.
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
    /// The run.
    pub run: RunId,
    /// Which step, where it concerns one.
    pub step: Option<String>,
    /// One sentence for people.
    pub message: String,
    /// What a program wants to know.
    pub data: Value,
}

/// Core message, one a batch and workspace: these runs have new history. It may be lost; the caller who
/// reads history from a number on misses nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nudge {
    /// Runs, each with the number of its newest item.
    pub runs: Vec<(RunId, u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S2-R11
    #[test]
    fn the_word_of_every_type_is_what_serde_writes() {
        for kind in EventType::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
