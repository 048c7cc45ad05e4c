//! A request to people in a rehearsal.

use chrono::{DateTime, Utc};
use holdpoint_contracts::hold::{HoldSpec, OnTimeout};
use holdpoint_ids::UserName;

use super::script::PersonRule;

/// A request that a real run would have sent.
#[derive(Debug)]
pub(super) struct OpenRequest {
    pub(super) spec: Box<HoldSpec>,
    pub(super) rule: PersonRule,
    /// A recipient who does not exist or is disabled: the request ends at once.
    pub(super) inactive: Option<UserName>,
    pub(super) answer_at: Option<DateTime<Utc>>,
    pub(super) deadline: Option<DateTime<Utc>>,
}

impl OpenRequest {
    /// Sets when it is answered, or ended because of an inactive user.
    pub(super) fn plan_answer(&mut self, now: DateTime<Utc>) {
        self.answer_at = match self.inactive {
            Some(_) => Some(now),
            None => self.rule.answer_at(now),
        };
    }

    /// When it closes; none: people and its deadline never close it.
    pub(super) fn due(&self) -> Option<DateTime<Utc>> {
        self.answer_at.into_iter().chain(self.expires_at()).min()
    }

    /// An escalated request stays open after its deadline.
    fn expires_at(&self) -> Option<DateTime<Utc>> {
        let ends = self.spec.on_timeout != OnTimeout::Escalate;
        self.deadline.filter(|_| ends)
    }
}
