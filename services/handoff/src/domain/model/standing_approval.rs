//! A person's approval of calls in advance, and its use.

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::handoff::{
    PlannedCall, StandingApprovalStatus, StandingApprovalTerms, StandingApprovalUse,
    StandingApprovalView,
};
use holdpoint_contracts::hold::ApprovalItem;
use holdpoint_holds::standing_approval::CoveredCalls;
use holdpoint_ids::{AgentName, RunId, StandingApprovalId, ToolName, UserName, Workspace};
use serde::{Deserialize, Serialize};

use super::progress::AuditStamp;

/// The terms never change. The uses are rows beside the state, because requests use it and not its own commands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StandingApproval {
    pub workspace: Workspace,
    pub id: StandingApprovalId,
    pub terms: StandingApprovalTerms,
    /// The approver of each use.
    pub created_by: UserName,
    pub created_at: DateTime<Utc>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<AuditStamp>,
    /// Rises with every change.
    pub version: u64,
}

/// The calls that a standing approval may be about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallKind {
    pub agent: AgentName,
    pub tool: ToolName,
    /// One call of one run, as `<run>/<step>`; none: every call of the tool by the agent.
    pub planned: Option<String>,
}

impl CallKind {
    /// The kind of one call of one run.
    #[must_use]
    pub fn of_planned(&self, run: RunId, step: &str) -> Self {
        Self {
            planned: Some(format!("{run}/{step}")),
            ..self.clone()
        }
    }
}

/// A standing approval with the number of its uses.
#[derive(Debug, Clone, PartialEq)]
pub struct CountedStandingApproval {
    pub approval: StandingApproval,
    pub used: u32,
}

impl StandingApproval {
    #[must_use]
    pub fn call_kind(&self) -> CallKind {
        let kind = CallKind {
            agent: self.terms.agent.clone(),
            tool: self.terms.tool.clone(),
            planned: None,
        };
        match &self.terms.call {
            Some(call) => kind.of_planned(call.run, &call.step),
            None => kind,
        }
    }

    /// The first instant at which it cannot be used.
    #[must_use]
    pub fn expires_at(&self) -> DateTime<Utc> {
        let time = i64::try_from(self.terms.expires_in).unwrap_or_default();
        let end = self
            .created_at
            .checked_add_signed(TimeDelta::milliseconds(time));
        end.unwrap_or(self.created_at)
    }
}

impl CountedStandingApproval {
    #[must_use]
    pub fn status(&self, now: DateTime<Utc>) -> StandingApprovalStatus {
        if self.approval.revoked.is_some() {
            StandingApprovalStatus::Revoked
        } else if self.used >= self.approval.terms.max_uses {
            StandingApprovalStatus::UsedUp
        } else if now >= self.approval.expires_at() {
            StandingApprovalStatus::Expired
        } else {
            StandingApprovalStatus::Active
        }
    }

    /// Whether it approves a call now.
    pub(crate) fn covers(&self, run: RunId, item: &ApprovalItem, now: DateTime<Utc>) -> bool {
        let terms = &self.approval.terms;
        let is_it = |call: &PlannedCall| {
            (call.run, &call.step, &call.digest) == (run, &item.id, &item.digest)
        };
        let calls = CoveredCalls {
            tool: &terms.tool,
            version: terms.version.as_deref(),
            args_schema: &terms.args_schema,
        };
        self.status(now) == StandingApprovalStatus::Active
            && terms.call.as_ref().is_none_or(is_it)
            // Limits say nothing of arguments that are hidden. The digest of an early approval covers them.
            && (item.redaction.is_empty() || terms.call.is_some())
            && calls.cover(item)
    }

    /// The standing approval as the API shows it.
    #[must_use]
    pub fn view(&self, now: DateTime<Utc>, uses: Vec<StandingApprovalUse>) -> StandingApprovalView {
        let approval = &self.approval;
        let terms = &approval.terms;
        let revoked = approval.revoked.as_ref();
        StandingApprovalView {
            id: approval.id,
            status: self.status(now),
            agent: terms.agent.clone(),
            tool: terms.tool.clone(),
            version: terms.version.clone(),
            args_schema: terms.args_schema.clone(),
            max_uses: terms.max_uses,
            used: self.used,
            reason: terms.reason.clone(),
            call: terms.call.clone(),
            created_by: approval.created_by.to_string(),
            created_at: approval.created_at,
            expires_at: approval.expires_at(),
            revoked_by: revoked.map(|stamp| stamp.by.clone()),
            revoked_at: revoked.map(|stamp| stamp.at),
            uses,
        }
    }
}
