//! Commands and queries about registered tools.

use holdpoint_ids::ToolName;
use serde::{Deserialize, Serialize};

use crate::tool::ToolSpec;

/// Registers a tool that is an HTTP call, or states what counts for a tool of workers (`POST /tools`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutTool {
    pub tool: ToolSpec,
    /// The `seen` of the tool that the operator has looked at. Required to lower what counts below a registration of
    /// nodes that is newer than the last put.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<u64>,
}

/// Forgets a registered tool; steps that call it then fail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteTool {
    pub name: ToolName,
}

/// One tool, with the registrations of nodes and the changes of operators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetTool {
    pub tool: ToolName,
}

/// All tools by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListTools {
    /// 1 to 500.
    pub limit: u64,
    pub cursor: Option<String>,
}
