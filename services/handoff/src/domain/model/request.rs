//! A request: its state, and what follows from the state alone.

mod view;

use chrono::{DateTime, Utc};
use holdpoint_contracts::handoff::{Effect as DecisionEffect, LateAnswer, RequestStatus};
use holdpoint_contracts::hold::{
    ApprovalRecord, ApprovalVote, HoldOutcome, HoldSpec, OnTimeout, Priority,
};
use holdpoint_contracts::run::HoldKind;
use holdpoint_contracts::size::json_bytes;
use holdpoint_holds::{OWNERS, Recipient};
use holdpoint_ids::{HoldId, UserName, Workspace};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::progress::{AuditStamp, RequestProgress, Vote, is_default};

/// Most bytes of context and arguments of a request that is kept in memory. The kernel keeps 50,000 states.
const SMALL_BYTES_MAX: usize = 4 * 1024;

/// Actor of timeouts and rungs.
pub(crate) const BY_TIME: &str = "service:scheduler";

/// Actor of what the handoff service does by itself.
pub(crate) const BY_SERVICE: &str = "service:handoff";

/// Actor of what a run wants.
pub(crate) const BY_EXECUTOR: &str = "service:executor";

/// The service that sends the desired state of a hold and gets its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// A run waits for the hold.
    Executor,
}

/// One hold and its history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    pub workspace: Workspace,
    pub id: HoldId,
    /// Rises with every change.
    pub version: u64,
    /// Version of the last change that people see; acknowledgements between services are invisible.
    /// 0: the row is older than this field.
    #[serde(default)]
    pub visible_version: u64,
    /// None: a standalone hold.
    pub owner: Option<Owner>,
    /// Generation of the newest desired state; 0 for a standalone hold.
    pub rev: u64,
    /// None: a tombstone of a hold that was never open here.
    pub spec: Option<HoldSpec>,
    pub phase: Phase,
    /// When the deadline passed without ending the request ([`OnTimeout::Escalate`]).
    pub escalated_at: Option<DateTime<Utc>>,
    /// The newest timer that the scheduler was sent.
    pub timer: Timer,
    /// Generation of the newest close that the executor was sent.
    pub closed_rev: Option<u64>,
    /// Effect of the end on the run, as far as the executor has reported it; none while the request is open.
    pub effect: Option<DecisionEffect>,
    /// Answers that came too late.
    pub late: Vec<LateAnswer>,
    /// Opener of a standalone hold.
    pub opened_by: Option<String>,
    /// Openers of the requests that this one asks again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_openers: Vec<String>,
    /// Timeout of a standalone hold, in milliseconds. 0: no automatic end, or the row is older than this
    /// field.
    #[serde(default, skip_serializing_if = "is_default")]
    pub timeout_ms: u64,
    pub created_at: DateTime<Utc>,
    #[serde(default)]
    pub progress: RequestProgress,
    /// When the contact of its run was erased. Then only the record of its decision is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erased_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// People may decide until the deadline.
    Open {
        /// None: no automatic end.
        deadline: Option<DateTime<Utc>>,
    },
    /// A pause stopped the deadline. A decision counts and takes effect on resume.
    Frozen {
        /// Instant of the pause.
        since: DateTime<Utc>,
        /// Time left at that instant, in milliseconds; none: there is no deadline.
        remaining_ms: Option<u64>,
    },
    /// A person has decided, or no recipient was active (S0-R1). This phase never changes.
    Decided {
        outcome: HoldOutcome,
        data: Value,
        by: String,
        at: DateTime<Utc>,
    },
    /// The deadline passed, or a rung ended the request.
    TimedOut { at: DateTime<Utc> },
    /// The run or the opener does not want it any more.
    Withdrawn {
        reason: String,
        /// None: the owner withdrew it without a user.
        by: Option<String>,
        at: DateTime<Utc>,
    },
}

/// The timer that the scheduler was sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timer {
    /// Generation of the desired timer; 0: none was ever set.
    pub rev: u64,
    /// None: the timer is cleared or has fired.
    pub due: Option<DateTime<Utc>>,
    /// Whether the scheduler has acknowledged that the timer is cleared.
    #[serde(default)]
    pub is_acknowledged: bool,
}

impl Timer {
    /// Whether it was cleared and the scheduler has not acknowledged that.
    pub(crate) const fn is_unconfirmed(self) -> bool {
        self.rev > 0 && self.due.is_none() && !self.is_acknowledged
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct End {
    pub outcome: HoldOutcome,
    pub data: Value,
    pub by: String,
    pub at: DateTime<Utc>,
}

impl Request {
    /// A new request without a spec.
    pub(crate) fn new(
        workspace: &Workspace,
        id: HoldId,
        owner: Option<Owner>,
        now: DateTime<Utc>,
    ) -> Self {
        Self {
            workspace: workspace.clone(),
            id,
            version: 1,
            visible_version: 1,
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
            timeout_ms: 0,
            created_at: now,
            progress: RequestProgress::default(),
            erased_at: None,
        }
    }

    pub(crate) fn kind(&self) -> Option<HoldKind> {
        self.spec.as_ref().map(|spec| spec.kind)
    }

    /// How the request ended; none while it is open.
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
            Phase::TimedOut { at } => Some(self.timeout_end(*at)),
            Phase::Withdrawn { reason, by, at } => Some(End {
                outcome: HoldOutcome::Cancelled,
                data: json!(reason),
                by: match (by, self.owner) {
                    (Some(by), _) => by.clone(),
                    (None, Some(Owner::Executor)) => BY_EXECUTOR.to_owned(),
                    (None, None) => self.opened_by.clone().unwrap_or_default(),
                },
                at: *at,
            }),
        }
    }

    fn timeout_end(&self, at: DateTime<Utc>) -> End {
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
                Some(HoldKind::Timer | HoldKind::Signal | HoldKind::ChildRun) => HoldOutcome::Fired,
                Some(HoldKind::Approval | HoldKind::Input | HoldKind::Handoff) | None => {
                    HoldOutcome::Timeout
                }
            },
            data: default.unwrap_or_default(),
            by: BY_TIME.to_owned(),
            at,
        }
    }

    /// What the executor checks again before an approved call starts; none: the request was not approved.
    pub(crate) fn approval_record(&self) -> Option<ApprovalRecord> {
        let end = self.end()?;
        let votes = &self.progress.votes;
        if end.outcome != HoldOutcome::Approved || votes.is_empty() {
            return None;
        }
        let vote = |vote: &Vote| ApprovalVote {
            by: vote.by.clone(),
            addressed_by: vote.addressed_by.clone().unwrap_or_else(|| self.deciders()),
        };
        Some(ApprovalRecord {
            votes: votes.iter().map(vote).collect(),
            valid_ms: self.progress.resolved_policies.valid_ms,
        })
    }

    /// The take-over as the executor gets it; none: no person has taken the run over.
    pub(crate) fn take_over(&self) -> Option<End> {
        let mark = self.progress.taken_over.as_ref()?;
        Some(End {
            outcome: HoldOutcome::TakenOver,
            data: Value::Null,
            by: mark.by.clone(),
            at: mark.at,
        })
    }

    /// Who owns the run; none also while it is reassigned to several people and none has taken it.
    pub(crate) const fn run_owner(&self) -> Option<&AuditStamp> {
        match self.progress.assignee {
            Some(_) => self.progress.taken_over.as_ref(),
            None => None,
        }
    }

    /// The deadline that has not passed, or that was moved after it had passed.
    pub(crate) fn next_deadline(&self) -> Option<DateTime<Utc>> {
        self.deadline()
            .filter(|due| self.escalated_at.is_none_or(|passed| *due > passed))
    }

    /// Whether another service will soon acknowledge its end or its cleared timer. Not for a timer, because retention
    /// deletes its row.
    pub(crate) fn awaits_acknowledgement(&self) -> bool {
        let is_pending = self.effect == Some(DecisionEffect::Pending);
        self.kind() != Some(HoldKind::Timer) && (is_pending || self.timer.is_unconfirmed())
    }

    /// Whether many of its kind fit into memory.
    pub(crate) fn is_small(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| {
            let items = spec.items.iter().map(|item| json_bytes(&item.args));
            json_bytes(&spec.context) + items.sum::<usize>() <= SMALL_BYTES_MAX
        })
    }

    /// Whether a person has taken the run over and still has it. A run that was reassigned to a role, or
    /// whose owner was disabled, has no such person, so that its ladder runs again.
    pub(crate) const fn is_owned(&self) -> bool {
        self.progress.taken_over.is_some() && self.progress.assignee.is_some()
    }

    /// Whether people may still decide.
    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open { .. } | Phase::Frozen { .. })
    }

    /// The current recipients without additional deciders; empty: the workspace's owners.
    pub(crate) fn addressed_to(&self) -> &[String] {
        let asked = self.spec.as_ref().map_or(&[][..], |spec| &spec.to);
        self.progress.reassigned_to.as_deref().unwrap_or(asked)
    }

    /// Whether several people must agree. All recipients keep such a request, even if one accepts it.
    pub(crate) fn needs_votes(&self) -> bool {
        let several = |spec: &HoldSpec| spec.kind == HoldKind::Approval && spec.policy.need > 1;
        self.spec.as_ref().is_some_and(several)
    }

    /// Who is notified: the assignee if there is one, else all recipients; all deciders of a vote.
    pub(crate) fn audience(&self) -> Vec<String> {
        match &self.progress.assignee {
            Some(_) if self.needs_votes() => self.deciders(),
            Some(name) => vec![Recipient::user_text(name)],
            None => self.addressed_to().to_vec(),
        }
    }

    /// Whether a step created it as a to-do without waiting for it.
    pub(crate) fn is_task(&self) -> bool {
        let is_task = |spec: &HoldSpec| spec.task.is_some();
        self.id.is_standalone() && self.spec.as_ref().is_some_and(is_task)
    }

    /// All who may decide, besides operators; empty: the owners.
    pub fn deciders(&self) -> Vec<String> {
        let mut deciders = self.addressed_to().to_vec();
        let is_accepted = self.progress.assignee.is_some();
        if deciders.is_empty() && is_accepted && self.needs_votes() {
            deciders.push(OWNERS.to_owned());
        }
        deciders.extend(self.progress.additional_deciders.iter().cloned());
        if let Some(name) = &self.progress.assignee {
            deciders.push(Recipient::user_text(name));
        }
        deciders.dedup();
        deciders
    }

    /// Lets more people decide. An empty list means the owners, who may decide anyway.
    pub(crate) fn add_deciders(&mut self, to: &[String]) {
        for one in to {
            if !self.progress.additional_deciders.contains(one) {
                self.progress.additional_deciders.push(one.clone());
            }
        }
    }

    /// The priority, raised by rungs.
    pub fn priority(&self) -> Priority {
        let asked = self.spec.as_ref().map(|spec| spec.priority);
        self.progress.raised.or(asked).unwrap_or_default()
    }

    pub(crate) fn excluded(&self) -> ExcludedDeciders {
        let spec = self.spec.as_ref();
        spec.map_or_else(ExcludedDeciders::default, |spec| {
            ExcludedDeciders::of(spec, self.openers())
        })
    }

    /// The opener, and the openers of the requests that this one asks again.
    pub(crate) fn openers(&self) -> impl Iterator<Item = &str> {
        let all = self.opened_by.iter().chain(&self.earlier_openers);
        all.map(String::as_str)
    }

    /// Whether a caller who has seen a version has seen the current content.
    pub(crate) fn is_unchanged_since(&self, seen: u64) -> bool {
        let since = if self.visible_version == 0 {
            self.version
        } else {
            self.visible_version
        };
        (since..=self.version).contains(&seen)
    }

    /// Whether it ended without a person's decision: by timeout (even with a default answer), by
    /// withdrawal, or because no recipient was active. An erased request cannot be asked again.
    pub(crate) fn is_unanswered(&self) -> bool {
        if self.erased_at.is_some() {
            return false;
        }
        match &self.phase {
            Phase::Open { .. } | Phase::Frozen { .. } => false,
            Phase::TimedOut { .. } | Phase::Withdrawn { .. } => true,
            Phase::Decided { outcome, .. } => *outcome == HoldOutcome::Cancelled,
        }
    }

    /// The named requester, else the opener.
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

    /// The deadline of an open request; none while frozen.
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

    /// Time left while a pause has stopped the deadline, in milliseconds.
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

/// Under `not_requester`, the requester and the openers of a request. With only one of the two
/// excluded, a caller would name another requester and decide their own request (A-H5).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ExcludedDeciders(Vec<String>);

impl ExcludedDeciders {
    /// The requester and the openers of a hold; empty if its policy does not exclude them.
    pub(crate) fn of<'n>(spec: &'n HoldSpec, openers: impl IntoIterator<Item = &'n str>) -> Self {
        if !spec.policy.not_requester {
            return Self::default();
        }
        let mut names: Vec<String> = Vec::new();
        for name in spec.requester.as_deref().into_iter().chain(openers) {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        Self(names)
    }

    pub(crate) fn contains(&self, name: &UserName) -> bool {
        self.0.iter().any(|excluded| excluded == name.as_str())
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn names(&self) -> String {
        self.0.join("` and `")
    }
}
