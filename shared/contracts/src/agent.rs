//! Agents as the API shows them.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_ids::{AgentName, PolicyName};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::problem::FieldError;
use crate::run::Clocks;

/// One step of an agent as it was compiled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedStepView {
    /// Default `step-01`, `step-02` and so on.
    pub id: String,
    /// `tool`, `wait`, `wait_for`, `ask`, `handoff` or `finish`.
    pub kind: String,
    /// One line for people.
    pub action: String,
    /// The step as an instruction, if the grammar has words for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<String>,
    /// Steps that must have ended before.
    pub needs: Vec<String>,
    /// Condition in CEL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Arguments, or what is asked, with their placeholders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
    /// Who approves its call, if the author says so. Without it, the risk of the tool counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<PlannedApproval>,
    /// Names of the policies of its request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<PolicyName>,
    /// How long its worker may be silent, in milliseconds; none: 30 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_timeout_ms: Option<u64>,
    /// Longest time of one attempt of a tool, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// When a failed tool is called again, if the author says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Value>,
    /// `continue`, `skip_rest` or `handoff`; none: its failure fails the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<String>,
    /// Length of a wait in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The items, one child each: a placeholder or a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_each: Option<Value>,
    /// Most children in progress at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel: Option<u32>,
}

/// The approval that the author of a step wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedApproval {
    /// Recipients; empty: the owners of the workspace.
    pub from: Vec<String>,
    pub need: u32,
    pub not_requester: bool,
    /// None: the time of its policies counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decide_within_ms: Option<u64>,
    /// None: the time of its policies counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_for_ms: Option<u64>,
}

/// An agent as the API shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentView {
    pub agent: AgentName,
    /// Rises with every change.
    pub version: u32,
    /// `active`.
    pub status: String,
    pub description: Option<String>,
    /// In order; only in the view of a single agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<PlannedStepView>,
    /// Allowed and probably not intended, such as a tool that no node offers; only in the view of a single agent.
    #[serde(default)]
    pub warnings: Vec<FieldError>,
    /// The form of its inputs; only in the view of a single agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Value>,
    /// What one run may use, and how many may start; only in the view of a single agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Value>,
    /// What a pause does to its waiting runs, `hold` or `cancel`; only in the view of a single agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_pause: Option<String>,
    /// The newest versions, newest first, at most [`VERSIONS_MAX`]; only in the view of a single agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<AgentVersionView>,
    /// When this version was applied.
    #[serde(with = "crate::instant")]
    pub updated_at: DateTime<Utc>,
}

/// Most versions in the view of an agent.
pub const VERSIONS_MAX: u64 = 20;

/// One version of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentVersionView {
    pub version: u32,
    /// When it was applied.
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
}

/// Most runs that the statistics of an agent have.
pub const STATS_RUNS_MAX: u64 = 10_000;

/// The statistics of an agent over its newest runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetAgentStats {
    pub agent: AgentName,
    /// Runs that were created since; none: in the last 30 days.
    #[serde(default, with = "crate::instant::option")]
    pub since: Option<DateTime<Utc>>,
}

/// What became of the newest runs of an agent, at most [`STATS_RUNS_MAX`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentStats {
    pub agent: AgentName,
    /// Runs that were created before do not count.
    #[serde(with = "crate::instant")]
    pub since: DateTime<Utc>,
    /// Runs that count.
    pub runs: u64,
    /// Whether older runs since then are left out.
    pub limit_reached: bool,
    /// Runs by status; statuses without runs are absent.
    pub statuses: BTreeMap<String, u64>,
    /// Failed and cancelled runs by the class of their failure.
    pub failures: BTreeMap<String, u64>,
    /// Completed runs among the completed ones and those that failed by the agent (S0-NFR); none: no run has completed
    /// or failed by the agent.
    pub success_rate: Option<f64>,
    /// Of the ended runs, each clock by itself; none: no run has ended.
    pub median: Option<Clocks>,
}
