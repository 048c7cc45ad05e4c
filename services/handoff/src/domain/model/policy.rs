//! The policies of a workspace.

use std::collections::BTreeMap;

use holdpoint_contracts::handoff::{PolicyRules, PolicyView};
use holdpoint_ids::{PolicyName, Workspace};
use serde::{Deserialize, Serialize};

/// A policy's state. A deleted policy keeps its row, so that its version goes on rising.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    pub workspace: Workspace,
    pub name: PolicyName,
    pub rules: PolicyRules,
    /// Rises with every change.
    pub version: u64,
    /// A deleted policy cannot be named.
    pub deleted: bool,
}

impl Policy {
    /// The policy as the API shows it.
    #[must_use]
    pub fn view(&self) -> PolicyView {
        PolicyView {
            name: self.name.clone(),
            rules: self.rules.clone(),
            version: self.version,
            built_in: false,
            by_priority: BTreeMap::new(),
        }
    }
}
