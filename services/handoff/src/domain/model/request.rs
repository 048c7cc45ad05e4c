//! A request: its state.

mod shown;

use chrono::{DateTime, Utc};
use holdpoint_contracts::handoff::{Effect as DecisionEffect, LateAnswer, RequestStatus};
use holdpoint_contracts::hold::{HoldOutcome, HoldSpec, OnTimeout, Priority};
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::{HoldId, Workspace};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::DecisionContext;
use super::audience::Barred;
use super::ladder;
use super::merge_desired_state::OwnerState;
use super::progress::{AuditStamp, RequestProgress};
use super::refusal::Refusal;

/// Who decides when nobody else does.
pub(crate) const BY_TIME: &str = "service:scheduler";

/// Who closes what could not be asked.
pub(crate) const BY_SERVICE: &str = "service:handoff";

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
    pub workspace: Workspace,
    pub id: HoldId,
    /// Rises with every change.
    pub version: u64,
    /// Of the last change that people see: what services confirm to each other is none. 0: the row
    /// is older than this field.
    #[serde(default)]
    pub seen_version: u64,
    /// Who is told when it ends; none: it stands alone.
    pub owner: Option<Owner>,
    /// Of the newest desired state; 0 where it stands alone.
    pub rev: u64,
    /// What is asked; none in a tombstone of something that was never known.
    pub spec: Option<HoldSpec>,
    pub phase: Phase,
    /// When its deadline passed without ending it ([`OnTimeout::Escalate`]).
    pub escalated_at: Option<DateTime<Utc>>,
    /// What the scheduler was told.
    pub timer: Timer,
    /// Of the newest close that the executor was sent.
    pub closed_rev: Option<u64>,
    /// What the end did to the run, as far as that is known; none while it stands.
    pub effect: Option<DecisionEffect>,
    /// Answers that came too late.
    pub late: Vec<LateAnswer>,
    /// Who opened it, where it stands alone.
    pub opened_by: Option<String>,
    /// Who opened the requests that this one repeats, where it was asked again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_openers: Vec<String>,
    /// How long it was given, in milliseconds, where it stands alone; 0: no automatic end, or the row is
    /// older than this field.
    #[serde(default, skip_serializing_if = "is_none_given")]
    pub lasts_ms: u64,
    /// When it was first heard of.
    pub created_at: DateTime<Utc>,
    /// What people, and its ladder, did with it so far.
    #[serde(default)]
    pub progress: RequestProgress,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_none_given(lasts_ms: &u64) -> bool {
    *lasts_ms == 0
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
    /// A person has decided, or it could not be asked (S0-R1); never changes.
    Decided {
        outcome: HoldOutcome,
        data: Value,
        by: String,
        at: DateTime<Utc>,
    },
    /// Time was up.
    TimedOut {
        /// When that was recorded.
        at: DateTime<Utc>,
    },
    /// Not wanted any more.
    Withdrawn {
        reason: String,
        /// Who ended it; none: its owner by itself.
        #[serde(default)]
        by: Option<String>,
        at: DateTime<Utc>,
    },
}

/// The timer as the scheduler was last told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timer {
    /// Of that desired state; 0: there never was one.
    pub rev: u64,
    /// When it fires; none: not at all, or it has.
    pub due: Option<DateTime<Utc>>,
    /// Whether the scheduler has said that it is cleared.
    #[serde(default)]
    pub is_confirmed: bool,
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
    /// What one begins with that nobody has heard of yet.
    pub(crate) fn fresh(context: &DecisionContext<'_>, owner: Option<Owner>) -> Self {
        Self {
            workspace: context.workspace.clone(),
            id: context.id,
            version: 1,
            seen_version: 1,
            owner,
            rev: 0,
            spec: None,
            phase: Phase::Open { deadline: None },
            escalated_at: None,
            timer: Timer::default(),
            closed_rev: None,
            effect: None,
            late: Vec::new(),
            opened_by: None,
            earlier_openers: Vec::new(),
            lasts_ms: 0,
            created_at: context.now,
            progress: RequestProgress::default(),
        }
    }

    /// What is asked: a kind that nobody can decide where that is not known.
    pub(crate) fn kind(&self) -> Option<HoldKind> {
        self.spec.as_ref().map(|spec| spec.kind)
    }

    /// Where it stands, as a desired state meets it.
    pub(crate) fn owner_state(&self) -> OwnerState {
        match &self.phase {
            Phase::Open { .. } | Phase::Frozen { .. } => OwnerState::Open,
            Phase::Decided { .. } => OwnerState::Decided,
            Phase::TimedOut { at } => OwnerState::TimedOut(*at),
            Phase::Withdrawn { .. } => OwnerState::Withdrawn,
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
            Phase::Withdrawn { reason, by, at } => Some(End {
                outcome: HoldOutcome::Cancelled,
                data: json!(reason),
                by: match (by, self.owner) {
                    (Some(by), _) => by.clone(),
                    (None, Some(Owner::Executor)) => "service:executor".to_owned(),
                    (None, None) => self.opened_by.clone().unwrap_or_default(),
                },
                at: *at,
            }),
        }
    }

    fn time_out(&self, at: DateTime<Utc>) -> End {
        let spec = self.spec.as_ref();
        let by_rung = self.progress.ladder.ended.as_ref();
        let is_answered = by_rung.is_some_and(|end| end.is_answered);
        let is_wanted = spec.is_some_and(|spec| spec.on_timeout == OnTimeout::Default);
        let default = spec
            .filter(|_| is_answered || is_wanted)
            .and_then(|spec| spec.default.clone());
        End {
            outcome: match self.kind() {
                _ if is_answered => HoldOutcome::Answered,
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

    /// That a person owns the run now, as the executor is told it; none: nobody does.
    pub(crate) fn take_over(&self) -> Option<End> {
        let mark = self.progress.taken_over.as_ref()?;
        Some(End {
            outcome: HoldOutcome::TakenOver,
            data: Value::Null,
            by: mark.by.clone(),
            at: mark.at,
        })
    }

    /// Whose the run is; none: nobody's, or given to several of whom nobody has taken it yet.
    pub(crate) const fn owned(&self) -> Option<&AuditStamp> {
        match self.progress.assignee {
            Some(_) => self.progress.taken_over.as_ref(),
            None => None,
        }
    }

    /// The deadline that has not passed yet, or was moved behind its passing.
    pub(crate) fn next_deadline(&self) -> Option<DateTime<Utc>> {
        self.deadline()
            .filter(|due| self.escalated_at.is_none_or(|passed| *due > passed))
    }

    /// The timer that its state asks for: its deadline, or its next rung. A deadline that has passed
    /// and was escalated asks for none.
    pub(crate) fn wanted_due(&self) -> Option<DateTime<Utc>> {
        match self.phase {
            Phase::Open { .. } => {
                let rung = ladder::next(self).map(|(_, due)| due);
                [self.next_deadline(), rung].into_iter().flatten().min()
            }
            Phase::Frozen { .. }
            | Phase::Decided { .. }
            | Phase::TimedOut { .. }
            | Phase::Withdrawn { .. } => None,
        }
    }

    /// Whether a person has taken the run over and still has it. A run that was passed on to a role, or
    /// whose owner has left, has no such person: its ladder runs again.
    pub(crate) const fn is_owned(&self) -> bool {
        self.progress.taken_over.is_some() && self.progress.assignee.is_some()
    }

    /// Whether it stands: nobody has decided, and time is not up.
    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open { .. } | Phase::Frozen { .. })
    }

    /// Whom it is put to now, without those who may decide it too; empty: the workspace's owners.
    pub(crate) fn addressed_to(&self) -> &[String] {
        let asked = self.spec.as_ref().map_or(&[][..], |spec| &spec.to);
        self.progress.reassigned_to.as_deref().unwrap_or(asked)
    }

    /// Whether several must agree: then it stays with all of them, whoever has accepted it.
    pub(crate) fn is_voted_on(&self) -> bool {
        let several = |spec: &HoldSpec| spec.kind == HoldKind::Approval && spec.policy.need > 1;
        self.spec.as_ref().is_some_and(several)
    }

    /// Who is told of it: whoever has it, else all it is put to; all of them where several must agree.
    pub(crate) fn audience(&self) -> Vec<String> {
        match &self.progress.assignee {
            Some(_) if self.is_voted_on() => self.deciders(),
            Some(name) => vec![format!("@user.{name}")],
            None => self.addressed_to().to_vec(),
        }
    }

    /// Whether a step has created a to-do, and its run does not wait for it.
    pub(crate) fn is_task(&self) -> bool {
        let is_task = |spec: &HoldSpec| spec.task.is_some();
        self.id.is_standalone() && self.spec.as_ref().is_some_and(is_task)
    }

    /// Everybody who may decide it, besides operators; no entry: the owners.
    pub fn deciders(&self) -> Vec<String> {
        let mut deciders = self.addressed_to().to_vec();
        let is_accepted = self.progress.assignee.is_some();
        if deciders.is_empty() && is_accepted && self.is_voted_on() {
            deciders.push("@role.owner".to_owned());
        }
        deciders.extend(self.progress.also.iter().cloned());
        if let Some(name) = &self.progress.assignee {
            deciders.push(format!("@user.{name}"));
        }
        deciders.dedup();
        deciders
    }

    /// Lets more people decide.
    pub(crate) fn also(&mut self, to: &[String]) {
        // The owners may anyway.
        for one in to {
            if !self.progress.also.contains(one) {
                self.progress.also.push(one.clone());
            }
        }
    }

    /// How urgent it is by now.
    pub fn priority(&self) -> Priority {
        let asked = self.spec.as_ref().map(|spec| spec.priority);
        self.progress.raised.or(asked).unwrap_or_default()
    }

    /// Who is not to get it: may not decide it.
    pub(crate) fn barred(&self) -> Barred {
        let spec = self.spec.as_ref();
        spec.map_or_else(Barred::default, |spec| Barred::of(spec, self.openers()))
    }

    /// Who opened it, and the requests that it repeats.
    pub(crate) fn openers(&self) -> impl Iterator<Item = &str> {
        let all = self.opened_by.iter().chain(&self.earlier_openers);
        all.map(String::as_str)
    }

    /// Whether it is as somebody has seen it, if that matters to them.
    pub(crate) fn is_at(&self, seen: Option<u64>) -> Result<(), Refusal> {
        let since = if self.seen_version == 0 {
            self.version
        } else {
            self.seen_version
        };
        let same = since..=self.version;
        match seen.filter(|seen| !same.contains(seen)) {
            None => Ok(()),
            Some(seen) => Err(Refusal::VersionConflict {
                seen,
                version: self.version,
            }),
        }
    }

    /// Who wanted what is asked for.
    pub(crate) fn requester(&self) -> Option<&str> {
        let spec = self.spec.as_ref()?;
        let named = spec.requester.as_deref();
        named.or(self.opened_by.as_deref())
    }

    /// Its status in the API.
    #[must_use]
    pub fn status(&self) -> RequestStatus {
        let is_handoff = self.kind() == Some(HoldKind::Handoff);
        match self.phase {
            Phase::Open { .. } | Phase::Frozen { .. } if is_handoff => self.handoff_status(),
            Phase::Open { .. } | Phase::Frozen { .. } => RequestStatus::Open,
            Phase::Decided {
                outcome: HoldOutcome::Cancelled,
                ..
            } => RequestStatus::Withdrawn,
            Phase::Decided { .. } if is_handoff => RequestStatus::Completed,
            Phase::Decided { .. } => RequestStatus::Decided,
            Phase::TimedOut { .. } => RequestStatus::Expired,
            Phase::Withdrawn { .. } => RequestStatus::Withdrawn,
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
            | Phase::Withdrawn { .. } => None,
        }
    }

    /// What is left of its time while a pause has stopped the clock, in milliseconds.
    pub(crate) const fn frozen_ms(&self) -> Option<u64> {
        match self.phase {
            Phase::Frozen { remaining_ms, .. } => remaining_ms,
            Phase::Open { .. }
            | Phase::Decided { .. }
            | Phase::TimedOut { .. }
            | Phase::Withdrawn { .. } => None,
        }
    }

    fn handoff_status(&self) -> RequestStatus {
        if self.progress.taken_over.is_some() {
            RequestStatus::TakenOver
        } else if self.progress.accepted.is_some() {
            RequestStatus::Accepted
        } else if self.progress.is_reassigned {
            RequestStatus::Reassigned
        } else {
            RequestStatus::Offered
        }
    }
}
