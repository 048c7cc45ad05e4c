//! Agents as the API shows them.

use chrono::{DateTime, Utc};
use holdpoint_ids::AgentName;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::problem::FieldError;

/// One step of an agent as it was compiled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedStepView {
    /// Default `step-01`, `step-02` and so on.
    pub id: String,
    /// `tool`, `wait`, `wait_for`, `ask`, `handoff` or `finish`.
    pub kind: String,
    /// One line for people.
    pub action: String,
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
    /// When this version was applied.
    #[serde(with = "crate::instant")]
    pub updated_at: DateTime<Utc>,
}
