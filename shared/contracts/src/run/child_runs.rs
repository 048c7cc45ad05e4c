//! Parent and child runs as the API shows them.

use holdpoint_ids::{AgentName, RunId};
use serde::{Deserialize, Serialize};

use super::RunStatus;

/// A run that a step has started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildRunView {
    pub run: RunId,
    pub agent: AgentName,
    /// None: it has not started yet, or it was deleted. A run whose start was refused has none, or `cancelled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
}

/// The step that has started a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentRunView {
    pub run: RunId,
    pub step: String,
}
