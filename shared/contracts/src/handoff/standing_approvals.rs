//! Standing approvals: a person approves calls of one tool by one agent in advance (S2-R4).
//!
//! Each use is an ordinary vote of that person on an ordinary request, and the same rules of the request apply to it.

use chrono::{DateTime, Utc};
use holdpoint_ids::{AgentName, HoldId, RunId, StandingApprovalId, ToolName};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::IntoStaticStr;

words!(StandingApprovalStatus);

/// The calls that a standing approval covers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StandingApprovalTerms {
    pub agent: AgentName,
    pub tool: ToolName,
    /// [`ApprovalItem::version`](crate::hold::ApprovalItem::version): a call of another version is asked as usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// JSON Schema of the arguments. A call with other arguments is asked as usual.
    pub args_schema: Value,
    /// Most uses, 1 to 10,000.
    pub max_uses: u32,
    /// How long it may be used, in milliseconds: 1 minute to 90 days. Written as a duration.
    #[serde(with = "crate::duration::text")]
    pub expires_in: u64,
    /// Why it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The only call that it covers: an early approval of a step that has not been reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<PlannedCall>,
}

/// One call of one run, before its step is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedCall {
    pub run: RunId,
    pub step: String,
    /// [`ApprovalItem::digest`](crate::hold::ApprovalItem::digest): a changed call is asked as usual.
    pub digest: String,
}

/// A person approves calls in advance. Needs a signed assertion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateStandingApproval {
    /// Made by the caller, so that a repetition creates nothing.
    pub id: StandingApprovalId,
    pub terms: StandingApprovalTerms,
}

/// Its creator or an operator ends a standing approval. Needs a signed assertion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RevokeStandingApproval {
    pub id: StandingApprovalId,
}

/// One standing approval with its newest uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetStandingApproval {
    pub id: StandingApprovalId,
}

/// Standing approvals, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListStandingApprovals {
    /// 1 to 500.
    pub limit: u64,
    /// Only those for calls by this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// Only those for calls of this tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolName>,
    /// Only those that are neither expired nor revoked, and cover more than one call of one run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lasting: bool,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

/// Whether a standing approval can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum StandingApprovalStatus {
    Active,
    /// All its uses are spent.
    UsedUp,
    Expired,
    Revoked,
}

/// A standing approval as the API shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StandingApprovalView {
    pub id: StandingApprovalId,
    pub status: StandingApprovalStatus,
    pub agent: AgentName,
    pub tool: ToolName,
    pub version: Option<String>,
    pub args_schema: Value,
    pub max_uses: u32,
    pub used: u32,
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<PlannedCall>,
    /// The approver of each use.
    pub created_by: String,
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
    #[serde(with = "crate::instant")]
    pub expires_at: DateTime<Utc>,
    pub revoked_by: Option<String>,
    #[serde(default, with = "crate::instant::option")]
    pub revoked_at: Option<DateTime<Utc>>,
    /// The newest uses, at most 100; empty in lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<StandingApprovalUse>,
}

/// One use of a standing approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandingApprovalUse {
    /// Counts from 1.
    pub number: u32,
    /// The request that it approved.
    pub request: HoldId,
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
}
