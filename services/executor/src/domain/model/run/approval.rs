//! The approval of a gated step (S2-R3, S2-R4).

use chrono::{DateTime, Utc};
use holdpoint_contracts::hold::ApprovalVote;
use holdpoint_contracts::run::ApprovalState;
use holdpoint_ids::HoldId;
use serde::{Deserialize, Serialize};

use crate::domain::model::time::after;

/// The newest approval of a step. Earlier ones are in the history, and with the handoff service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepApproval {
    /// The request that asked for it.
    pub hold: HoldId,
    /// Of the call that was asked for.
    pub digest: String,
    /// How long an approval permits dispatches, in milliseconds from the decision.
    pub valid_ms: u64,
    /// A policy of the request may set a longer time, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub valid_by_policy: bool,
    pub state: ApprovalState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<ApprovalDecision>,
    /// Whether the notification of another request announced it. Then it announces no further one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_covered: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalDecision {
    pub by: String,
    pub at: DateTime<Utc>,
    /// The comment of an approval, or the reason of a rejection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Whether the person replaced the arguments ([`edited_args_name`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_edited: bool,
    /// Of the edited call, from its first dispatch on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_digest: Option<String>,
    /// The votes of an approval; empty: the decision is older than this field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<ApprovalVote>,
}

/// Name of the value with the arguments that a person gave a step. No step can have this name.
#[must_use]
pub fn edited_args_name(step: &str) -> String {
    format!("?edited-{step}")
}

/// Name of the value with the arguments before a person edited them. No step can have this name.
#[must_use]
pub fn original_args_name(step: &str) -> String {
    format!("?original-{step}")
}

impl StepApproval {
    /// The approval, which may have expired.
    #[must_use]
    pub fn approval(&self) -> Option<&ApprovalDecision> {
        let is_approved = self.state == ApprovalState::Approved;
        self.decision.as_ref().filter(|_| is_approved)
    }

    /// Applies the time of a policy. The step's own time counts if it is shorter.
    pub fn limit_validity(&mut self, policy_ms: u64) {
        self.valid_ms = if self.valid_by_policy {
            policy_ms
        } else {
            policy_ms.min(self.valid_ms)
        };
    }

    /// The approval that permits dispatches now.
    #[must_use]
    pub fn valid_decision(&self, now: DateTime<Utc>) -> Option<&ApprovalDecision> {
        let is_valid = |decision: &&ApprovalDecision| now <= after(decision.at, self.valid_ms);
        self.approval().filter(is_valid)
    }
}
