//! A run: its steps, its holds, and its pauses.
//!
//! A phase carries its data, so that "waiting without a hold" cannot be written. A pause is an
//! overlay beside the phase: resuming needs no memory of what was before.

pub mod approval;
mod awaited_runs;
pub mod blobs;
pub mod child_runs;
mod children;
pub mod choice;
pub mod failures;
pub mod fan_out;
pub mod limits;
pub mod person_hold;
pub mod saved_part;
pub mod signals;
pub mod step;
pub mod suspension;
pub mod timer;
pub mod tool_questions;

pub use approval::{ApprovalDecision, StepApproval, edited_args_name, original_args_name};
pub use blobs::{Blob, UNREFERENCED_MS};
pub use child_runs::{ChildRuns, ParentRun};
pub use choice::{Answered, Choice};
pub use failures::{Backoff, Failures};
pub use fan_out::{ChildOf, FanOut};
pub use limits::{LimitRow, Place, PlaceRow, RunBudget, RunLimits, StartTimer, StartTurn};
pub use person_hold::{
    Deadline, HoldClosure, INTERVENTION, Ownership, PersonHold, condition_name, spec_name,
};
pub use saved_part::SavedPart;
pub use signals::{
    AwaitedSignal, KEPT_SIGNALS_MAX, SIGNAL_BYTES_MAX, SIGNAL_KEY_CHARS_MAX, SIGNAL_KEYS_MAX,
    Signal, SignalKey, Signals, signal_name,
};
pub use step::{
    AtWorker, Dispatched, Hold, LATE_RESULTS_MAX, MissingTool, Step, StepGrant, StepPhase,
    Uncertain,
};
pub use suspension::{InFlightStep, SUPPLEMENT_MS, Suspension};
pub use timer::Timer;
pub use tool_questions::{AnsweredQuestion, OpenQuestion, QUESTIONS_MAX, Questions, answer_name};

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_contracts::asking::Answers;
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::run::{Clocks, Failure, HoldKind, PausedBy, RunStatus};
use holdpoint_contracts::steps::StepDispatch;
use holdpoint_contracts::tool::HttpCall;
use holdpoint_ids::{AgentName, ContactId, HoldId, RunId, ToolName, Workspace};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::model::is_default;
use crate::domain::model::plan::OnPause;
use crate::domain::model::scope::AppliedScopes;

impl Run {
    /// The open holds on people, each with its step if it is one's.
    pub fn people(&self) -> impl Iterator<Item = (Option<&Step>, &PersonHold)> {
        let steps = self.steps.iter();
        let steps = steps.filter_map(|step| Some((Some(step), step.on_people()?)));
        let whole = self.missing_inputs_hold.iter().chain(&self.takeover_hold);
        let whole = whole.map(Box::as_ref).chain(self.budget_hold());
        steps.chain(whole.map(|on| (None, on)))
    }

    /// A copy of an open hold on people.
    #[must_use]
    pub fn person_hold(&self, hold: HoldId) -> Option<PersonHold> {
        let (_, on) = self.people().find(|(_, on)| on.id == hold)?;
        Some(on.clone())
    }

    /// The open holds on people, to be changed.
    pub fn people_mut(&mut self) -> impl Iterator<Item = &mut PersonHold> {
        let steps = self.steps.iter_mut().filter_map(Step::on_people_mut);
        let whole = self
            .missing_inputs_hold
            .iter_mut()
            .chain(&mut self.takeover_hold);
        let budget = self.limits.iter_mut();
        let budget = budget.filter_map(|it| it.budget.as_mut()?.hold.as_deref_mut());
        steps.chain(whole.map(Box::as_mut)).chain(budget)
    }

    /// Who owns the run, if a person does.
    #[must_use]
    pub fn taken(&self) -> Option<&Ownership> {
        self.people().find_map(|(_, on)| on.taken.as_ref())
    }
}

/// Most labels of one run, and most characters of a label's name or value.
pub const LABELS_MAX: usize = 32;

/// See [`LABELS_MAX`].
pub const LABEL_CHARS_MAX: usize = 200;

/// Incidents that a run keeps. Further ones are only in the log and among the dead letters.
pub const INCIDENTS_MAX: usize = 16;

/// Largest context of a run, in bytes of JSON. Its input is its context.
pub const CONTEXT_BYTES_MAX: usize = 1024 * 1024;

/// How often a run may be retried. Each retry adds to its history.
pub const RETRIES_MAX: u32 = 100;

/// Control state only: results and context are rows of their own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub id: RunId,
    pub workspace: Workspace,
    pub agent: AgentName,
    /// Which version of its plan. Only an operator changes it.
    pub plan: u32,
    /// Whether its planner has made a plan of its own, which has begun.
    #[serde(default, skip_serializing_if = "is_default")]
    pub has_generated_plan: bool,
    pub contact: Option<ContactId>,
    pub labels: BTreeMap<String, String>,
    pub started_by: Actor,
    pub created_at: DateTime<Utc>,
    /// Rises by one with every decision that changes anything.
    pub version: u64,
    /// Number of the newest history item.
    pub seq: u64,
    /// Number of holds that were opened so far.
    pub holds: u32,
    /// Whether it is over, and how.
    pub phase: Phase,
    /// In the order of the plan. The children of fan-outs that are in progress follow.
    pub steps: Vec<Step>,
    /// Who stopped it; it moves only while this is empty.
    pub pauses: Vec<PausedBy>,
    /// Its suspension, beside the pause that freezes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspension: Option<Box<Suspension>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blobs: Vec<Blob>,
    /// The changes of its agent and workspace that it has applied.
    #[serde(default)]
    pub followed: AppliedScopes,
    /// What a pause of its agent does while it waits, as its plan says.
    #[serde(default)]
    pub on_pause: OnPause,
    /// Whether the notification service wants its end.
    #[serde(default, skip_serializing_if = "is_default")]
    pub watched: bool,
    pub clocks: Clocks,
    /// A question that must be answered before anything starts (S2-R12).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing_inputs_hold: Option<Box<PersonHold>>,
    /// An operator's handoff to themselves: they own the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takeover_hold: Option<Box<PersonHold>>,
    /// Numbers of its holds on people that were closed. A repeated close changes nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closed: Vec<u32>,
    /// Those of them that timed out: a later answer does not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timed_out: Vec<u32>,
    /// Reasons of its dead letters, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incidents: Vec<String>,
    /// How often an operator has retried it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retries: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    pub signals: Signals,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Box<RunLimits>>,
    /// The step that has started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Box<ParentRun>>,
}

#[cfg_attr(test, derive(strum::IntoStaticStr, strum::VariantNames))]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Phase {
    /// Something may still happen.
    Live,
    /// All steps ended.
    Completed { at: DateTime<Utc>, summary: String },
    /// A step failed for good.
    Failed { at: DateTime<Utc>, failure: Failure },
    /// A user or a scope ended it.
    Cancelled { at: DateTime<Utc>, failure: Failure },
}

/// The tool of a dispatch, with its arguments.
#[derive(Debug)]
pub struct ToolInvocation {
    pub tool: ToolName,
    pub args: Value,
    /// The call of a registered tool.
    pub http: Option<HttpCall>,
    /// The answers of people to this tool so far.
    pub answers: Answers,
}

impl Run {
    /// Whether nothing can happen any more.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        match self.phase {
            Phase::Live => false,
            Phase::Completed { .. } | Phase::Failed { .. } | Phase::Cancelled { .. } => true,
        }
    }

    /// Whether steps may start: the run is live, not paused, not owned by a person, and does not wait for
    /// missing inputs, for a decision about its budget, for its turn or for a place.
    #[must_use]
    pub fn moves(&self) -> bool {
        self.moves_with_place() && !self.lacks_place()
    }

    /// As [`Self::moves`], once it has a place.
    #[must_use]
    pub fn moves_with_place(&self) -> bool {
        self.may_call() && self.budget_hold().is_none() && self.delayed_start().is_none()
    }

    /// Whether a worker may start a step that was dispatched. The call counts in the budget already.
    #[must_use]
    pub fn may_call(&self) -> bool {
        !self.is_final()
            && self.pauses.is_empty()
            && self.missing_inputs_hold.is_none()
            && self.taken().is_none()
    }

    /// Its status. A pause does not change it, and a suspension does.
    #[must_use]
    pub fn status(&self) -> RunStatus {
        match self.phase {
            Phase::Completed { .. } => RunStatus::Completed,
            Phase::Failed { .. } => RunStatus::Failed,
            Phase::Cancelled { .. } => RunStatus::Cancelled,
            Phase::Live => self.live_status(),
        }
    }

    fn live_status(&self) -> RunStatus {
        let any = |is: fn(&StepPhase) -> bool| self.steps.iter().any(|step| is(&step.phase));
        let is_on = |kind| self.people().any(|(_, on)| on.kind == kind);
        let is_asked = is_on(HoldKind::Input);
        if self.suspension.is_some() {
            RunStatus::PausedForIntervention
        } else if self.taken().is_some() {
            RunStatus::Waiting
        } else if is_asked || any(|phase| matches!(phase, StepPhase::Uncertain(_))) {
            RunStatus::AwaitingInput
        } else if is_on(HoldKind::Approval) {
            RunStatus::AwaitingApproval
        } else if self.is_queued_by_limits() {
            RunStatus::Queued
        } else if any(StepPhase::is_active) {
            RunStatus::Running
        } else if any(|phase| matches!(phase, StepPhase::Waiting(_) | StepPhase::AwaitingPerson(_)))
        {
            RunStatus::Waiting
        } else if any(|phase| !matches!(phase, StepPhase::Planned)) {
            RunStatus::Running
        } else {
            RunStatus::Queued
        }
    }

    #[must_use]
    pub const fn ended_at(&self) -> Option<DateTime<Utc>> {
        match self.phase {
            Phase::Live => None,
            Phase::Completed { at, .. }
            | Phase::Failed { at, .. }
            | Phase::Cancelled { at, .. } => Some(at),
        }
    }

    /// When it continues by itself; none while paused, or while no timer is set.
    #[must_use]
    pub fn resume_at(&self) -> Option<DateTime<Utc>> {
        let waits = self.holds().filter(|(_, hold)| hold.continues_on_timeout());
        let waits = waits.filter_map(|(_, hold)| match hold.timer {
            Timer::Set { due, .. } => Some(due),
            Timer::Frozen { .. } => None,
        });
        let handed = self.people().filter(|(_, on)| on.continues_on_timeout());
        let handed = handed.filter_map(|(_, on)| on.deadline());
        match self.taken() {
            // Nothing of the agent starts before the person hands it back.
            Some(_) => None,
            None => {
                let start = self.delayed_start().filter(|_| self.pauses.is_empty());
                let start = start.map(|(_, due)| due);
                waits.chain(handed).chain(start).min()
            }
        }
    }

    /// The dispatch of a queued step, the same however often it is made; none for other steps.
    #[must_use]
    pub fn step_dispatch(&self, step: &Step, called: ToolInvocation) -> Option<StepDispatch> {
        let StepPhase::Queued(handed) = &step.phase else {
            return None;
        };
        let ToolInvocation {
            tool,
            args,
            http,
            answers,
        } = called;
        Some(StepDispatch {
            workspace: self.workspace.clone(),
            run: self.id,
            agent: self.agent.clone(),
            step: step.id.clone(),
            dispatch: step.dispatch,
            attempt: step.attempts,
            tool,
            args,
            contact: self.contact.clone(),
            // A gated step never starts without a grant, which checks the approval again.
            idempotent: handed.idempotent && !handed.is_gated,
            claim_timeout_ms: handed.lease_ms,
            timeout_ms: handed.timeout_ms,
            token: None,
            http,
            answers,
            feedback: step.feedback.as_deref().cloned(),
            resumed: step.saved_part.is_some(),
            user: self.started_by.clone(),
            traceparent: self.traceparent(step.dispatch),
            at: handed.at,
        })
    }

    /// W3C trace context of a dispatch. The run is the trace, so that all its steps are found together. The
    /// version of the run and the dispatch identify the span.
    #[must_use]
    pub fn traceparent(&self, dispatch: u64) -> String {
        let trace = self.id.uuid().simple();
        let version = self.version & 0xffff_ffff;
        format!("00-{trace}-{version:08x}{:08x}-01", dispatch & 0xffff_ffff)
    }

    /// The open questions about uncertain steps, each with its step.
    pub fn questions(&self) -> impl Iterator<Item = (&Step, &Uncertain)> {
        let steps = self.steps.iter();
        steps.filter_map(|step| Some((step, step.phase.try_as_uncertain_ref()?)))
    }

    /// The open holds on time, each with its step.
    pub fn holds(&self) -> impl Iterator<Item = (&Step, &Hold)> {
        let steps = self.steps.iter();
        steps.filter_map(|step| Some((step, step.phase.try_as_waiting_ref()?)))
    }
}
