//! A step of a run: its phase carries the data of that phase.

use chrono::{DateTime, Utc};
use holdpoint_contracts::asking::AskMode;
use holdpoint_contracts::run::{HoldKind, StepStatus};
use holdpoint_contracts::steps::{Feedback, LEASE_DEFAULT_MS};
use holdpoint_ids::{HoldId, NodeName};
use serde::{Deserialize, Serialize};
use strum::EnumTryAs;

use crate::domain::model::is_default;
use crate::domain::model::plan::signal_steps::OnWaitTimeout;
use crate::domain::model::plan::{OnError, Retry};
use crate::domain::model::run::approval::StepApproval;
use crate::domain::model::run::child_runs::ChildRuns;
use crate::domain::model::run::choice::Answered;
use crate::domain::model::run::failures::{Backoff, Failures};
use crate::domain::model::run::fan_out::{ChildOf, FanOut};
use crate::domain::model::run::person_hold::PersonHold;
use crate::domain::model::run::saved_part::SavedPart;
use crate::domain::model::run::signals::AwaitedSignal;
use crate::domain::model::run::timer::Timer;
use crate::domain::model::run::tool_questions::{OpenQuestion, Questions};
use crate::domain::model::time::after;

/// Late results of one step that are kept as evidence. Further ones are only answered.
pub const LATE_RESULTS_MAX: usize = 16;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// As in the plan (S2-R1); of a child with the number of its item.
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
    #[serde(default, skip_serializing_if = "is_default")]
    pub lost: u32,
    /// Numbers of its questions whose answers took effect: the same one again changes nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answered: Vec<u32>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub questions: Questions,
    /// The approval that it needs (S2-R3), once it has been asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Box<StepApproval>>,
    /// A worker has said that the tool has the risk `high`: it is gated from then on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_high_risk: bool,
    /// Parts of the arguments and the result of its newest call that are never shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redaction: Vec<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub failures: Failures,
    /// A person or a signal completed it. A retry of the run keeps that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_person: bool,
    /// A retry of the run has kept it. Steps that need it also wait until its own needs have ended again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_kept: bool,
    /// Its run ended while it may have had its effect. A person is asked before a retry of the run calls it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<Box<StepGrant>>,
    /// What a person wanted changed when its result was sent back last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<Box<Feedback>>,
    /// The newest snapshot has what its last call saved, and the next call gets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved_part: Option<SavedPart>,
    /// As in the plan.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_error: OnError,
    /// Its children (S2-R9), once they have begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fan_out: Option<Box<FanOut>>,
    /// Of a child: its item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_of: Option<ChildOf>,
    /// The runs that it has started last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_runs: Option<Box<ChildRuns>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, EnumTryAs)]
#[cfg_attr(test, derive(strum::IntoStaticStr, strum::VariantNames))]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum StepPhase {
    Planned,
    /// Its children do its work (S2-R9). [`Step::fan_out`] counts them, because a retry of the run needs that, too.
    FannedOut,
    /// Dispatched. A worker may have started an idempotent step without asking.
    Queued(Dispatched),
    #[serde(rename = "working")]
    Granted(StepGrant),
    /// A hold keeps it.
    Waiting(Hold),
    /// A worker was granted it and never reported, or its tool did not end in time, and a repetition would do
    /// harm. A person is asked.
    Uncertain(Uncertain),
    /// People are asked: a hold on them keeps it.
    #[serde(rename = "asked")]
    AwaitingPerson(Box<PersonHold>),
    /// Its tool has asked people and ended. It has no lease, and is dispatched again with the answer.
    Parked(Box<OpenQuestion>),
    Completed {
        at: DateTime<Utc>,
    },
    /// Did not succeed.
    Failed {
        at: DateTime<Utc>,
    },
    /// Its condition did not hold, or a person ended the run before it.
    Skipped {
        at: DateTime<Utc>,
    },
    /// The run ended first.
    Cancelled {
        at: DateTime<Utc>,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dispatched {
    pub at: DateTime<Utc>,
    /// Whether doing it twice does no harm.
    pub idempotent: bool,
    /// How long a grant of it lasts without a heartbeat, in milliseconds (S4-R6).
    #[serde(default = "lease_default")]
    pub lease_ms: u64,
    /// Whether an approval permitted it. Then it starts only with a grant.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_gated: bool,
    /// Revision of its registered tool. A worker does not start it if the tool has another revision by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    /// Whether its result is checked against the schema of its tool.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_result_schema: bool,
    /// Longest time of the attempt, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// What the registry says of a failed call. The plan's own `retry` goes before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Box<Retry>>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub missing_tool: MissingTool,
}

/// What people were asked about a dispatch, because no node offers its tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissingTool {
    #[default]
    NotAsked,
    Open(Box<PersonHold>),
    /// They answered that the step keeps waiting.
    KeepsWaiting,
}

/// How much longer than its timeout a tool may run before its worker loses the step, in milliseconds. A worker
/// stops the tool itself; this is for one that does not.
pub const TIMEOUT_GRACE_MS: u64 = 30_000;

const fn lease_default() -> u64 {
    LEASE_DEFAULT_MS
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepGrant {
    pub handed: Dispatched,
    pub node: NodeName,
    /// For which delivery: the same one asking again is a repetition, another one is not.
    pub delivery: u64,
    pub since: DateTime<Utc>,
}

impl StepGrant {
    /// When its worker loses the step, although its heartbeats arrive; none: it may run as long as it likes.
    #[must_use]
    pub fn ends_at(&self) -> Option<DateTime<Utc>> {
        let timeout_ms = self.handed.timeout_ms?;
        Some(after(
            self.since,
            timeout_ms.saturating_add(TIMEOUT_GRACE_MS),
        ))
    }
}

/// Why a step does not go on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hold {
    pub id: HoldId,
    pub since: DateTime<Utc>,
    /// How long the plan has it wait, in milliseconds.
    pub length_ms: u64,
    pub timer: Timer,
    /// Its tool has failed and is called again; none: the plan has the step wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// The signal that ends it; none: only time does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<Box<AwaitedSignal>>,
    /// The ends of child runs end it; what follows if they do not end in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_runs: Option<OnWaitTimeout>,
    /// It ends at an instant of the calendar. A pause does not move that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_due: bool,
}

impl Hold {
    /// Whether the run goes on by itself when the time is over.
    #[must_use]
    pub fn continues_on_timeout(&self) -> bool {
        let signal = self.signal.as_deref().map(|signal| signal.on_timeout);
        let on_timeout = signal.or(self.child_runs);
        on_timeout.is_none_or(|on_timeout| on_timeout == OnWaitTimeout::Skip)
    }

    #[must_use]
    pub const fn kind(&self) -> HoldKind {
        match (&self.signal, &self.child_runs) {
            (Some(_), _) => HoldKind::Signal,
            (None, Some(_)) => HoldKind::ChildRun,
            (None, None) => HoldKind::Timer,
        }
    }
}

/// A step that may have happened, and the question whether it has.
#[expect(
    clippy::struct_excessive_bools,
    reason = "four of them say why it is asked, and rows are stored with them"
)]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Uncertain {
    pub working: StepGrant,
    /// The hold on people, which is its waker.
    pub hold: HoldId,
    pub since: DateTime<Utc>,
    /// The answer that came while the run was paused. It takes effect on resume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answered>,
    /// Whether the handoff service has refused a first question: this one has a fixed text and no context.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_minimal: bool,
    /// Whether its tool did not end in time. Otherwise its worker never reported.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_timeout: bool,
    /// Whether its tool failed, and cannot know whether it had its effect.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unconfirmed: bool,
    /// Whether its run ended first, and was retried.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_retried: bool,
    /// Whether its worker has stopped it before its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_stopped: bool,
}

impl Uncertain {
    /// Why it is uncertain whether the step happened: a sentence without its subject.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        if self.is_retried {
            "may have happened: it was called before the run failed."
        } else if self.is_timeout {
            "may have happened: its tool did not end in time."
        } else if self.is_unconfirmed {
            "may have happened: its tool failed and cannot tell whether it had an effect."
        } else if self.is_stopped {
            "may have happened: its worker stopped it before its end."
        } else {
            "may have happened: its worker was granted the start and never reported."
        }
    }
}

/// The phases in which a worker is concerned.
#[derive(Debug, Clone, Copy)]
pub enum AtWorker<'p> {
    Queued(&'p Dispatched),
    Granted(&'p StepGrant),
    Uncertain(&'p Uncertain),
}

impl<'p> AtWorker<'p> {
    /// The dispatch that the worker has, may have, or may take.
    #[must_use]
    pub const fn dispatched(self) -> &'p Dispatched {
        match self {
            Self::Queued(dispatched) => dispatched,
            Self::Granted(grant) => &grant.handed,
            Self::Uncertain(asked) => &asked.working.handed,
        }
    }
}

impl StepPhase {
    /// The unanswered grant, also of an uncertain step.
    #[must_use]
    pub fn grant(&self) -> Option<&StepGrant> {
        self.try_as_granted_ref()
            .or_else(|| self.try_as_uncertain_ref().map(|asked| &asked.working))
    }

    /// Where the time before the next attempt of its tool runs.
    #[must_use]
    pub fn backoff(&self) -> Option<Backoff> {
        self.try_as_waiting_ref()?.backoff
    }

    /// Whether its tool is called now, or again after a short time.
    #[must_use]
    pub fn is_active(&self) -> bool {
        matches!(self, Self::Queued(_) | Self::Granted(_)) || self.backoff().is_some()
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
            | Self::FannedOut
            | Self::Queued(_)
            | Self::Granted(_)
            | Self::Waiting(_)
            | Self::AwaitingPerson(_)
            | Self::Parked(_)
            | Self::Uncertain(_) => false,
        }
    }

    /// Where a worker has the step, may have it, or may take it; none: no worker is concerned.
    #[must_use]
    pub const fn at_worker(&self) -> Option<AtWorker<'_>> {
        match self {
            Self::Queued(dispatched) => Some(AtWorker::Queued(dispatched)),
            Self::Granted(grant) => Some(AtWorker::Granted(grant)),
            Self::Uncertain(asked) => Some(AtWorker::Uncertain(asked)),
            Self::Planned
            | Self::FannedOut
            | Self::Waiting(_)
            | Self::AwaitingPerson(_)
            | Self::Parked(_)
            | Self::Completed { .. }
            | Self::Failed { .. }
            | Self::Skipped { .. }
            | Self::Cancelled { .. } => None,
        }
    }

    #[must_use]
    pub const fn status(&self) -> StepStatus {
        match self {
            Self::Planned => StepStatus::Planned,
            Self::Queued(_) => StepStatus::Queued,
            Self::FannedOut | Self::Granted(_) => StepStatus::InProgress,
            Self::AwaitingPerson(on) if matches!(on.kind, HoldKind::Approval) => {
                StepStatus::WaitingConfirm
            }
            Self::Waiting(_) | Self::AwaitingPerson(_) | Self::Parked(_) => StepStatus::Waiting,
            Self::Uncertain(_) => StepStatus::Uncertain,
            Self::Completed { .. } => StepStatus::Completed,
            Self::Failed { .. } => StepStatus::Failed,
            Self::Skipped { .. } => StepStatus::Skipped,
            Self::Cancelled { .. } => StepStatus::Cancelled,
        }
    }
}

impl Step {
    /// A step that has not begun.
    #[must_use]
    pub fn planned(id: String, on_error: OnError) -> Self {
        Self {
            id,
            phase: StepPhase::Planned,
            dispatch: 0,
            attempts: 0,
            late: Vec::new(),
            lost: 0,
            answered: Vec::new(),
            questions: Questions::default(),
            approval: None,
            is_high_risk: false,
            redaction: Vec::new(),
            failures: Failures::default(),
            by_person: false,
            is_kept: false,
            interrupted: None,
            feedback: None,
            saved_part: None,
            on_error,
            fan_out: None,
            child_of: None,
            child_runs: None,
        }
    }

    /// The grant under which it may have had its effect without a report.
    #[must_use]
    pub fn unreported(&self) -> Option<&StepGrant> {
        match self.phase.at_worker()? {
            AtWorker::Queued(_) => None,
            AtWorker::Granted(grant) => Some(grant).filter(|grant| !grant.handed.idempotent),
            AtWorker::Uncertain(asked) => Some(&asked.working),
        }
    }

    /// What its tool asks people, if it still does: what has ended asks nothing.
    #[must_use]
    pub fn open_question(&self) -> Option<&OpenQuestion> {
        let is_open = !self.phase.is_settled();
        let blocking = self.questions.open.as_deref().filter(|_| is_open);
        let parked = self.phase.try_as_parked_ref();
        parked.map(Box::as_ref).or(blocking)
    }

    /// The question about its tool, which no node offers.
    #[must_use]
    pub fn missing_tool(&self) -> Option<&PersonHold> {
        match &self.phase.try_as_queued_ref()?.missing_tool {
            MissingTool::Open(on) => Some(on),
            MissingTool::NotAsked | MissingTool::KeepsWaiting => None,
        }
    }

    /// The hold on people that keeps it, that its tool waits for, or that is about its tool.
    #[must_use]
    pub fn on_people(&self) -> Option<&PersonHold> {
        let of_tool = || self.open_question().map(|open| &open.on);
        let own = self.phase.try_as_awaiting_person_ref();
        let own = own.map(Box::as_ref).or_else(|| self.missing_tool());
        own.or_else(of_tool)
    }

    pub fn on_people_mut(&mut self) -> Option<&mut PersonHold> {
        let is_settled = self.phase.is_settled();
        match &mut self.phase {
            StepPhase::AwaitingPerson(on) => Some(on),
            StepPhase::Parked(open) => Some(&mut open.on),
            StepPhase::Queued(Dispatched {
                missing_tool: MissingTool::Open(on),
                ..
            }) => Some(on),
            StepPhase::Planned
            | StepPhase::FannedOut
            | StepPhase::Queued(_)
            | StepPhase::Granted(_)
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
