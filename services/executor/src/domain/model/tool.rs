//! A registered tool: an HTTP call with a name, a risk and a promise.

use holdpoint_contracts::tool::{ToolSpec, ToolView};
use holdpoint_ids::Workspace;
use serde::{Deserialize, Serialize};

/// Names that mean a tool of Holdpoint itself.
pub const BUILT_IN: [&str; 5] = [
    "log",
    "http_request",
    "send_email",
    "update_contact",
    "create_task",
];

/// A tool's control state. A forgotten one stays known as such: steps that call it fail, instead of
/// waiting for a worker that never comes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    pub workspace: Workspace,
    pub spec: ToolSpec,
    /// Rises with every change.
    pub version: u64,
    pub deleted: bool,
}

impl Tool {
    /// The tool as the API shows it.
    #[must_use]
    pub fn view(&self, changed: bool) -> ToolView {
        ToolView {
            tool: self.spec.clone(),
            revision: self.version,
            changed,
        }
    }
}

/// Whether a name means a tool of Holdpoint itself.
#[must_use]
pub fn is_built_in(name: &str) -> bool {
    BUILT_IN.contains(&name)
}
