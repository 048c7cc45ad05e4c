//! Runs that the step of another run starts. Both are with the executor, which sends these messages to itself.

use chrono::{DateTime, Utc};
use holdpoint_ids::{AgentName, ContactId, HoldId, RunId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::Actor;
use crate::run::{ResumeMode, RunStatus};

/// The desired states of child runs; one message a batch of their parents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetChildRuns {
    /// At least one.
    pub children: Vec<DesiredChildRun>,
}

/// What a parent run wants of one child run. A lower or equal `rev` is ignored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DesiredChildRun {
    /// Derived from the hold and the place of the child, so that a repetition starts nothing.
    pub run: RunId,
    /// Version of the parent.
    pub rev: u64,
    /// The hold of the parent's step that waits for it.
    pub hold: HoldId,
    /// That step.
    pub step: String,
    pub agent: AgentName,
    pub state: ChildRunState,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildRunState {
    /// It runs. A pause of the parent is lifted, and waits continue by `mode`.
    Open {
        start: Box<ChildRunStart>,
        #[serde(default, skip_serializing_if = "crate::is_default")]
        mode: ResumeMode,
    },
    /// It is paused with its parent.
    Frozen {
        start: Box<ChildRunStart>,
        by: String,
    },
    /// The parent no longer needs it. One that has not started never starts.
    Cancelled { reason: String },
}

/// How a child run starts, if it has not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChildRunStart {
    /// `$input` in the steps.
    #[serde(default)]
    pub input: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contact: Option<ContactId>,
    /// Who started the first run of the chain.
    pub by: Actor,
    /// The agents of the runs above it, from the first one to its parent.
    pub ancestors: Vec<AgentName>,
    /// What is left of the budget of its parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<RemainingBudget>,
    /// How many runs may be in progress below it; none: as many as below the first run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_below: Option<u32>,
}

/// What a child run may use at most.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RemainingBudget {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_time_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_time_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Whom to ask when it is used up; empty: the owners of the workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
}

/// Ends of child runs; one message a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChildRunsEnded {
    /// At least one.
    pub ends: Vec<ChildRunEnd>,
}

/// How one child run has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChildRunEnd {
    /// The hold of the step that waits for it.
    pub id: HoldId,
    pub child: RunId,
    /// Version of the child.
    pub rev: u64,
    /// `completed`, `failed` or `cancelled`.
    pub status: RunStatus,
    /// Code of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The summary, or why it failed or was cancelled.
    pub message: String,
    /// The `output` of its `finish`.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub output: Value,
    /// Calls of its tools, if it or its parent has a budget.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub steps: u32,
    /// What they have cost.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub cost: f64,
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
}

/// The reply to the end of a child run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildRunEndReply {
    /// The parent has recorded it.
    Applied,
    /// The parent has ended, is deleted, or knows the end already.
    Ignored,
}
