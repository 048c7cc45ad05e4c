//! The history of a run, numbered without gaps.

use chrono::{DateTime, Utc};
use holdpoint_ids::RunId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::{EnumString, IntoStaticStr, VariantArray};

words!(EventType);
all_variants!(EventType);

/// The types of history entries, in the words of the API page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
#[derive(strum::Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(const_into_str)]
pub enum EventType {
    /// The run was accepted.
    #[strum(serialize = "run.started")]
    RunStarted,
    /// Its planner made a plan; `data.steps` has it in words.
    #[strum(serialize = "run.plan_generated")]
    RunPlanGenerated,
    /// A hold was opened and keeps the run.
    #[strum(serialize = "run.waiting")]
    RunWaiting,
    /// A hold ended, or the last pause was lifted.
    #[strum(serialize = "run.resumed")]
    RunResumed,
    /// An operator continued it after it had failed.
    #[strum(serialize = "run.retried")]
    RunRetried,
    /// An operator paused it.
    #[strum(serialize = "run.paused")]
    RunPaused,
    /// An operator, or a worker that shuts down, has suspended it (S1-R4).
    #[strum(serialize = "run.suspended")]
    RunSuspended,
    /// An operator has moved it to a newer version of its agent.
    #[strum(serialize = "run.migrated")]
    RunMigrated,
    /// It needs an answer from a person.
    #[strum(serialize = "run.awaiting_input")]
    RunAwaitingInput,
    /// It needs the approval of a gated step (S2-R3).
    #[strum(serialize = "run.awaiting_approval")]
    RunAwaitingApproval,
    /// All steps ended.
    #[strum(serialize = "run.completed")]
    RunCompleted,
    /// It failed.
    #[strum(serialize = "run.failed")]
    RunFailed,
    /// A user ended it.
    #[strum(serialize = "run.cancelled")]
    RunCancelled,
    /// A step was dispatched (S2-R11).
    #[strum(serialize = "step.called")]
    StepCalled,
    /// A worker continues a step with what was saved at a suspension (S1-R8).
    #[strum(serialize = "step.continued")]
    StepContinued,
    /// A step's result came.
    #[strum(serialize = "step.succeeded")]
    StepSucceeded,
    /// An attempt of a step failed, and its tool is called again.
    #[strum(serialize = "step.attempt_failed")]
    StepAttemptFailed,
    /// A step failed.
    #[strum(serialize = "step.failed")]
    StepFailed,
    /// A person sent its arguments back, and the step that made them runs again.
    #[strum(serialize = "step.revised")]
    StepRevised,
    /// A condition did not hold; `data.values` has the values seen.
    #[strum(serialize = "step.skipped")]
    StepSkipped,
    /// A result came too late; kept as evidence, never applied.
    #[strum(serialize = "step.late_result")]
    StepLateResult,
    /// A question of it was answered.
    #[strum(serialize = "input.answered")]
    InputAnswered,
    /// An operator changed what later steps see as the input of the run.
    #[strum(serialize = "run.context_changed")]
    RunContextChanged,
    /// A signal arrived.
    #[strum(serialize = "signal.received")]
    SignalReceived,
    /// People are asked to take it over for a while (S0-AC6).
    #[strum(serialize = "handoff.offered")]
    HandoffOffered,
    /// A user has accepted it.
    #[strum(serialize = "handoff.accepted")]
    HandoffAccepted,
    /// It was given to another user: by a person, by its ladder, or because the assignee is not active.
    #[strum(serialize = "handoff.reassigned")]
    HandoffReassigned,
    /// A person owns the run: the agent is fenced off (S0-AC7).
    #[strum(serialize = "handoff.taken_over")]
    HandoffTakenOver,
    /// A person has done it (S0-T3).
    #[strum(serialize = "handoff.completed")]
    HandoffCompleted,
    /// No user did it in time.
    #[strum(serialize = "handoff.expired")]
    HandoffExpired,
    /// It was withdrawn, or no recipient may do it.
    #[strum(serialize = "handoff.withdrawn")]
    HandoffWithdrawn,
    /// A message about it could not be handled and lies among the dead letters.
    #[strum(serialize = "run.incident")]
    RunIncident,
}

impl TryFrom<String> for EventType {
    type Error = strum::ParseError;

    fn try_from(text: String) -> Result<Self, strum::ParseError> {
        text.parse()
    }
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryItem {
    /// From 1, without gaps within a run; also the id of the live event.
    pub seq: u64,
    #[serde(rename = "type")]
    pub kind: EventType,
    /// When, by the executor's clock.
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
    pub run: RunId,
    /// The step, if it concerns one.
    pub step: Option<String>,
    /// One sentence for people.
    pub message: String,
    /// Details for programs.
    pub data: Value,
}

/// Core message, one a batch and workspace: these runs have new history. It may be lost; a reader of the history
/// from a number on misses nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nudge {
    /// Runs, each with the number of its newest item.
    pub runs: Vec<(RunId, u64)>,
}
