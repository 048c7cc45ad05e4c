//! A step of a run: its phase carries the data of that phase.

use chrono::{DateTime, Utc};
use holdpoint_contracts::asking::AskMode;
use holdpoint_contracts::run::StepStatus;
use serde::{Deserialize, Serialize};

use crate::domain::model::run::grant::{Dispatched, Working};
use crate::domain::model::run::person_hold::PersonHold;
use crate::domain::model::run::timer_hold::Hold;
use crate::domain::model::run::tool_questions::{OpenQuestion, Questions};
use crate::domain::model::run::uncertain::Uncertain;

/// Late results of one step that are kept as evidence. Further ones are only answered.
pub const LATE_RESULTS_MAX: usize = 16;

/// A step of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// As in the plan (S2-R1).
    pub id: String,
    pub phase: StepPhase,
    /// Number of its current dispatch: only ever rises, and fences all that a worker sends.
    pub dispatch: u64,
    /// Tries of the tool so far.
    pub attempts: u32,
    /// Dispatches whose late results were kept as evidence, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub late: Vec<u64>,
    /// Leases of it that ended without a result: the next grant is a takeover (S4-R7).
    #[serde(default, skip_serializing_if = "is_none_lost")]
    pub lost: u32,
    /// Numbers of its questions whose answers took effect: the same one again changes nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answered: Vec<u32>,
    /// The questions that its tool asks people.
    #[serde(default, skip_serializing_if = "Questions::is_empty")]
    pub questions: Questions,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_none_lost(lost: &u32) -> bool {
    *lost == 0
}

/// The state of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum StepPhase {
    /// It has not started.
    Planned,
    /// Dispatched. A worker may have started an idempotent step without asking.
    Queued(Dispatched),
    /// Granted to a worker.
    Working(Working),
    /// A hold keeps it.
    Waiting(Hold),
    /// A worker was granted it and never reported, and a repetition would do harm. A person is asked.
    Uncertain(Uncertain),
    /// People are asked: a hold on them keeps it.
    Asked(Box<PersonHold>),
    /// Its tool has asked people and ended. It has no lease, and is dispatched again with the answer.
    Parked(Box<OpenQuestion>),
    /// Done.
    Completed { at: DateTime<Utc> },
    /// Did not succeed.
    Failed { at: DateTime<Utc> },
    /// Its condition did not hold, or a person ended the run before it.
    Skipped { at: DateTime<Utc> },
    /// The run ended first.
    Cancelled { at: DateTime<Utc> },
}

impl StepPhase {
    /// The dispatch, while it is queued.
    #[must_use]
    pub const fn as_queued(&self) -> Option<&Dispatched> {
        if let Self::Queued(it) = self {
            Some(it)
        } else {
            None
        }
    }

    /// The grant, while it is with a worker.
    #[must_use]
    pub const fn as_working(&self) -> Option<&Working> {
        if let Self::Working(it) = self {
            Some(it)
        } else {
            None
        }
    }

    /// The hold on time that keeps it.
    #[must_use]
    pub const fn as_waiting(&self) -> Option<&Hold> {
        if let Self::Waiting(it) = self {
            Some(it)
        } else {
            None
        }
    }

    /// The hold on people that keeps it, if its own and not its tool's.
    #[must_use]
    pub fn as_asked(&self) -> Option<&PersonHold> {
        if let Self::Asked(on) = self {
            Some(on)
        } else {
            None
        }
    }

    /// The question that its parked tool has asked.
    #[must_use]
    pub fn as_parked(&self) -> Option<&OpenQuestion> {
        if let Self::Parked(open) = self {
            Some(open)
        } else {
            None
        }
    }

    /// The question whether it has happened.
    #[must_use]
    pub const fn as_uncertain(&self) -> Option<&Uncertain> {
        if let Self::Uncertain(it) = self {
            Some(it)
        } else {
            None
        }
    }

    /// The unanswered grant, also of an uncertain step.
    #[must_use]
    pub fn grant(&self) -> Option<&Working> {
        self.as_working()
            .or_else(|| self.as_uncertain().map(|asked| &asked.working))
    }

    /// Whether nothing more happens to the step.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        match self {
            Self::Completed { .. }
            | Self::Failed { .. }
            | Self::Skipped { .. }
            | Self::Cancelled { .. } => true,
            Self::Planned
            | Self::Queued(_)
            | Self::Working(_)
            | Self::Waiting(_)
            | Self::Asked(_)
            | Self::Parked(_)
            | Self::Uncertain(_) => false,
        }
    }

    /// Its status on the wire.
    #[must_use]
    pub const fn status(&self) -> StepStatus {
        match self {
            Self::Planned => StepStatus::Planned,
            Self::Queued(_) => StepStatus::Queued,
            Self::Working(_) => StepStatus::InProgress,
            Self::Waiting(_) | Self::Asked(_) | Self::Parked(_) => StepStatus::Waiting,
            Self::Uncertain(_) => StepStatus::Uncertain,
            Self::Completed { .. } => StepStatus::Completed,
            Self::Failed { .. } => StepStatus::Failed,
            Self::Skipped { .. } => StepStatus::Skipped,
            Self::Cancelled { .. } => StepStatus::Cancelled,
        }
    }
}

impl Step {
    /// What its tool asks people, if it still does: what has ended asks nothing.
    #[must_use]
    pub fn open_question(&self) -> Option<&OpenQuestion> {
        let is_open = !self.phase.is_settled();
        let blocking = self.questions.open.as_deref().filter(|_| is_open);
        self.phase.as_parked().or(blocking)
    }

    /// The hold on people that keeps it, or that its tool waits for.
    #[must_use]
    pub fn on_people(&self) -> Option<&PersonHold> {
        let of_tool = || self.open_question().map(|open| &open.on);
        self.phase.as_asked().or_else(of_tool)
    }

    /// The same, to be changed.
    pub fn on_people_mut(&mut self) -> Option<&mut PersonHold> {
        let is_settled = self.phase.is_settled();
        match &mut self.phase {
            StepPhase::Asked(on) => Some(on),
            StepPhase::Parked(open) => Some(&mut open.on),
            StepPhase::Planned
            | StepPhase::Queued(_)
            | StepPhase::Working(_)
            | StepPhase::Waiting(_)
            | StepPhase::Uncertain(_)
            | StepPhase::Completed { .. }
            | StepPhase::Failed { .. }
            | StepPhase::Skipped { .. }
            | StepPhase::Cancelled { .. } => {
                let open = self.questions.open.as_mut().filter(|_| !is_settled);
                open.map(|open| &mut open.on)
            }
        }
    }

    /// Whether its current dispatch has asked to park. It ends by itself, so nothing is lost with its worker.
    #[must_use]
    pub fn is_parking(&self) -> bool {
        let asked = self.open_question().map(|open| open.mode);
        let answered = self.questions.answered.last();
        let answered = answered.filter(|one| one.dispatch == self.dispatch);
        asked.or(answered.map(|one| one.mode)) == Some(AskMode::Park)
    }

    /// Whether its tool has been given an answer that the current dispatch did not bring.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        let mut answered = self.questions.answered.iter();
        answered.any(|one| one.dispatch == self.dispatch)
    }
}
