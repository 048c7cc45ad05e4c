//! The move of a run to a newer version of its agent.

use holdpoint_ids::RunId;
use serde::{Deserialize, Serialize};

/// Moves a live run to a newer version of its agent. Each step that has begun must have the same definition there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MigrateRun {
    pub run: RunId,
    /// None: the newest.
    pub version: Option<u32>,
}
