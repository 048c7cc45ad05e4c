//! A request to people in a rehearsal.

use chrono::{DateTime, Utc};
use holdpoint_contracts::hold::{HoldSpec, OnTimeout};

use super::script::PersonRule;

/// A request that a real run would have sent.
#[derive(Debug)]
pub(super) struct OpenRequest {
    pub(super) spec: Box<HoldSpec>,
    pub(super) rule: PersonRule,
    pub(super) answer_at: Option<DateTime<Utc>>,
    pub(super) deadline: Option<DateTime<Utc>>,
}

impl OpenRequest {
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
