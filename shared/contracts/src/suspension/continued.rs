//! A node continues a step with what was saved at a suspension (S1-R8).

use std::fmt;

use chrono::{DateTime, Utc};
use holdpoint_ids::{NodeName, RunId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::{Display, IntoStaticStr};

use super::Sandbox;

/// A node was granted a step of an earlier suspension, and asks for what the last call saved. The token decides the
/// step.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContinueStep {
    pub run: RunId,
    /// The token of the dispatch; only the current one counts.
    pub token: String,
    /// The node that was granted it.
    pub node: NodeName,
    /// The sandbox of the step at this node; none: it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

impl fmt::Debug for ContinueStep {
    /// Leaves out the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContinueStep")
            .field("run", &self.run)
            .field("node", &self.node)
            .field("sandbox", &self.sandbox)
            .finish_non_exhaustive()
    }
}

/// What the last call of a step saved. A large value is a reference.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContinuedStep {
    pub write_buffer: Value,
    pub checkpoint: Value,
    /// None: the last call had no sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<FoundSandbox>,
    /// When the run was suspended; none: nothing was saved.
    #[serde(
        default,
        with = "crate::instant::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub saved_at: Option<DateTime<Utc>>,
}

/// What a node has found of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoundSandbox {
    pub state: SandboxState,
    /// The node that continues the step.
    pub node: NodeName,
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Display, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum SandboxState {
    /// As the manifest lists it.
    Unchanged,
    /// A file is new, missing or different.
    Changed,
    /// The node does not have it.
    Absent,
}

words! { SandboxState }
