//! A request to people in a rehearsal.

use chrono::{DateTime, Utc};
use holdpoint_contracts::hold::{HoldSpec, OnTimeout};
use serde_json::Value;

use super::audience::Audience;
use super::ladder::Ladder;
use super::script::PersonRule;
use super::standing_approvals::ApprovedInAdvance;

/// A request that a real run would have sent.
#[derive(Debug)]
pub(super) struct OpenRequest {
    /// With the statements of its policies.
    pub(super) spec: Box<HoldSpec>,
    pub(super) rule: PersonRule,
    /// Who has it.
    pub(super) asked: Audience,
    /// Why it ends at once, with its code and its text. People do not get it.
    pub(super) refused: Option<Value>,
    /// It is decided at once. People are not notified.
    pub(super) in_advance: Option<ApprovedInAdvance>,
    pub(super) ladder: Ladder,
    /// The time that a policy states, until the run has it.
    pub(super) policy_time_ms: Option<u64>,
    pub(super) answer_at: Option<DateTime<Utc>>,
    pub(super) deadline: Option<DateTime<Utc>>,
    /// When a deadline passed after which the request stays open.
    pub(super) escalated_at: Option<DateTime<Utc>>,
    pub(super) opened_at: DateTime<Utc>,
    /// Events that its run has.
    pub(super) events: u64,
}

/// What happens next to a request. Of those at the same instant, the first one counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RequestDue {
    PolicyTime,
    Answer,
    Deadline,
    Rung,
}

impl OpenRequest {
    /// Sets when it is answered or refused.
    pub(super) fn plan_answer(&mut self, now: DateTime<Utc>) {
        let is_decided = self.refused.is_some() || self.in_advance.is_some();
        self.answer_at = if is_decided {
            Some(now)
        } else {
            self.rule.answer_at(now)
        };
    }

    /// None: people and time never change it.
    pub(super) fn due(&self) -> Option<(DateTime<Utc>, RequestDue)> {
        let passed = self.escalated_at;
        let deadline = self
            .deadline
            .filter(|due| passed.is_none_or(|passed| *due > passed));
        let all = [
            (
                self.policy_time_ms.map(|_| self.opened_at),
                RequestDue::PolicyTime,
            ),
            (self.answer_at, RequestDue::Answer),
            (deadline, RequestDue::Deadline),
            (self.ladder.due(), RequestDue::Rung),
        ];
        let all = all.into_iter();
        all.filter_map(|(at, what)| Some((at?, what))).min()
    }

    /// Whether its deadline ends it.
    pub(super) fn ends_at_deadline(&self) -> bool {
        self.spec.on_timeout != OnTimeout::Escalate
    }
}
