//! A request: its state, and how it is shown.

use chrono::{DateTime, Utc};
use holdpoint_contracts::handoff::{Effect as Word, LateAnswer, RequestStatus, RequestView};
use holdpoint_contracts::hold::{HoldOutcome, HoldSpec, OnTimeout};
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::{HoldId, Workspace};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::meet::OwnerState;

/// Who decides when nobody else does.
pub(crate) const BY_TIME: &str = "service:scheduler";

/// The service behind a hold: it says what it wants of it, and is told when it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// A run waits.
    Executor,
}

/// One hold, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Whose.
    pub workspace: Workspace,
    /// Which.
    pub id: HoldId,
    /// Rises with every change.
    pub version: u64,
    /// Who is told when it ends; none: it stands alone.
    pub owner: Option<Owner>,
    /// Of the newest wish; 0 where it stands alone.
    pub rev: u64,
    /// What is asked; none in a tombstone of something that was never known.
    pub spec: Option<HoldSpec>,
    /// Where it stands.
    pub phase: Phase,
    /// When its deadline passed without ending it ([`OnTimeout::Escalate`]).
    pub escalated_at: Option<DateTime<Utc>>,
    /// What the scheduler was told.
    pub alarm: Alarm,
    /// Of the newest close that the executor was sent.
    pub closed_rev: Option<u64>,
    /// What the end did to the run, as far as that is known; none while it stands.
    pub effect: Option<Word>,
    /// Answers that came too late.
    pub late: Vec<LateAnswer>,
    /// Who opened it, where it stands alone.
    pub opened_by: Option<String>,
    /// When it was first heard of.
    pub created_at: DateTime<Utc>,
}

/// Where a request stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Asked, until the deadline.
    Open {
        /// When time is up; none: never by itself.
        deadline: Option<DateTime<Utc>>,
    },
    /// A pause has stopped the clock; an answer counts and takes effect on resume.
    Frozen {
        /// The instant of the pause.
        since: DateTime<Utc>,
        /// What was left of the time at that instant, in milliseconds; none: there is no deadline.
        remaining_ms: Option<u64>,
    },
    /// A person has decided; never changes.
    Decided {
        /// How.
        outcome: HoldOutcome,
        /// What.
        data: Value,
        /// Who.
        by: String,
        /// When.
        at: DateTime<Utc>,
    },
    /// Time was up.
    TimedOut {
        /// When that was recorded.
        at: DateTime<Utc>,
    },
    /// Not wanted any more.
    Gone {
        /// Why, for people.
        reason: String,
        /// Since when.
        at: DateTime<Utc>,
    },
}

/// The alarm as the scheduler was last told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarm {
    /// Of that wish; 0: there never was one.
    pub rev: u64,
    /// When it fires; none: not at all, or it has.
    pub due: Option<DateTime<Utc>>,
}

/// How a request ended: outcome, data, by whom, when.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct End {
    pub(crate) outcome: HoldOutcome,
    pub(crate) data: Value,
    pub(crate) by: String,
    pub(crate) at: DateTime<Utc>,
}

impl Request {
    /// What is asked: a kind that nobody can decide where that is not known.
    pub(crate) fn kind(&self) -> Option<HoldKind> {
        self.spec.as_ref().map(|spec| spec.kind)
    }

    /// Where it stands, as a wish meets it.
    pub(crate) fn owner_state(&self) -> OwnerState {
        match &self.phase {
            Phase::Open { .. } | Phase::Frozen { .. } => OwnerState::Standing,
            Phase::Decided { .. } => OwnerState::Decided,
            Phase::TimedOut { at } => OwnerState::TimedOut(*at),
            Phase::Gone { .. } => OwnerState::Gone,
        }
    }

    /// How it ended; none while it stands.
    pub(crate) fn end(&self) -> Option<End> {
        match &self.phase {
            Phase::Open { .. } | Phase::Frozen { .. } => None,
            Phase::Decided {
                outcome,
                data,
                by,
                at,
            } => Some(End {
                outcome: *outcome,
                data: data.clone(),
                by: by.clone(),
                at: *at,
            }),
            Phase::TimedOut { at } => Some(self.time_out(*at)),
            Phase::Gone { reason, at } => Some(End {
                outcome: HoldOutcome::Cancelled,
                data: json!(reason),
                by: match self.owner {
                    Some(Owner::Executor) => "service:executor".to_owned(),
                    None => self.opened_by.clone().unwrap_or_default(),
                },
                at: *at,
            }),
        }
    }

    fn time_out(&self, at: DateTime<Utc>) -> End {
        let default = self.spec.as_ref().and_then(|spec| match spec.on_timeout {
            OnTimeout::Default => spec.default.clone(),
            OnTimeout::Fail | OnTimeout::Skip | OnTimeout::Continue | OnTimeout::Escalate => None,
        });
        End {
            outcome: match self.kind() {
                Some(HoldKind::Timer) => HoldOutcome::Fired,
                Some(HoldKind::Approval | HoldKind::Input | HoldKind::Handoff) | None => {
                    HoldOutcome::Timeout
                }
            },
            data: default.unwrap_or_default(),
            by: BY_TIME.to_owned(),
            at,
        }
    }

    /// The alarm that its state asks for. A deadline that has passed and was escalated asks for none.
    pub(crate) fn wanted_due(&self) -> Option<DateTime<Utc>> {
        match self.phase {
            Phase::Open { deadline } => {
                deadline.filter(|due| self.escalated_at.is_none_or(|passed| *due > passed))
            }
            Phase::Frozen { .. }
            | Phase::Decided { .. }
            | Phase::TimedOut { .. }
            | Phase::Gone { .. } => None,
        }
    }

    /// Its status in the API.
    #[must_use]
    pub fn status(&self) -> RequestStatus {
        match self.phase {
            Phase::Open { .. } | Phase::Frozen { .. } => RequestStatus::Open,
            Phase::Decided { .. } => RequestStatus::Decided,
            Phase::TimedOut { .. } => RequestStatus::Expired,
            Phase::Gone { .. } => RequestStatus::Withdrawn,
        }
    }

    /// When time is up; none while frozen, and when there is no deadline.
    #[must_use]
    pub fn deadline(&self) -> Option<DateTime<Utc>> {
        match self.phase {
            Phase::Open { deadline } => deadline,
            Phase::Frozen { .. }
            | Phase::Decided { .. }
            | Phase::TimedOut { .. }
            | Phase::Gone { .. } => None,
        }
    }

    /// What can be done to it now.
    fn actions(&self, kind: HoldKind) -> Vec<String> {
        if self.status() != RequestStatus::Open {
            return Vec::new();
        }
        let mut actions = match kind {
            HoldKind::Approval => vec!["approve", "reject"],
            HoldKind::Input => vec!["respond"],
            HoldKind::Timer | HoldKind::Handoff => Vec::new(),
        };
        if self.owner.is_none() {
            actions.push("withdraw");
        }
        actions.into_iter().map(str::to_owned).collect()
    }

    /// As the API shows it; none for a tombstone of something that was never known.
    #[must_use]
    pub fn view(&self) -> Option<RequestView> {
        let spec = self.spec.as_ref()?;
        let end = self.end();
        Some(RequestView {
            id: self.id,
            kind: spec.kind,
            run: self.owner.map(|Owner::Executor| self.id.run),
            step: spec.step.clone(),
            agent: spec.agent.clone(),
            status: self.status(),
            version: self.version,
            to: spec.to.clone(),
            question: spec.question.clone(),
            options: spec.options.clone(),
            reason: spec.reason.clone(),
            context: spec.context.clone(),
            deadline: self.deadline(),
            remaining_ms: match self.phase {
                Phase::Frozen { remaining_ms, .. } => remaining_ms,
                Phase::Open { .. }
                | Phase::Decided { .. }
                | Phase::TimedOut { .. }
                | Phase::Gone { .. } => None,
            },
            on_timeout: spec.on_timeout,
            actions: self.actions(spec.kind),
            outcome: end.as_ref().map(|end| end.outcome),
            response: end
                .as_ref()
                .map(|end| end.data.clone())
                .filter(|data| !data.is_null()),
            decided_by: end.as_ref().map(|end| end.by.clone()),
            decided_at: end.as_ref().map(|end| end.at),
            effect: self.effect,
            escalated_at: self.escalated_at,
            late: self.late.clone(),
            created_at: self.created_at,
            title: spec.title.clone(),
            assignee: None,
            priority: spec.priority,
            schema: spec.schema.clone(),
            task: spec.task.clone(),
            warm_lead: spec.warm_lead,
            votes: None,
            history: Vec::new(),
            snoozed_until: None,
            asks_again: spec.asks_again,
            steps_left: spec.steps_left,
            callback: spec.callback.clone(),
        })
    }
}
