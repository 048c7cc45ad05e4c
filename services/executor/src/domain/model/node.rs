//! A worker process: whether it is there.
//!
//! A node that falls silent is asked first and given up after: moving the clock never takes work
//! from one that lives. What becomes of its leases is decided run by run, never here.

use chrono::{DateTime, Utc};
use holdpoint_contracts::steps::NodeStatus;
use holdpoint_ids::{NodeName, RunId, ToolName, Workspace};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub name: NodeName,
    /// Rises by one with every decision; also the number of its timer.
    pub version: u64,
    pub status: NodeStatus,
    pub last_seen: DateTime<Utc>,
    pub changed_at: DateTime<Utc>,
    pub tools: Vec<ToolName>,
    pub queue_depth: u64,
    /// How long it may be silent, in milliseconds: its shortest lease.
    pub lease_ms: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forgotten: bool,
}

impl Node {
    /// Whether it may take steps. A silent node may still live.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.status != NodeStatus::Down
    }
}

/// A node's time-limited right to a started step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub workspace: Workspace,
    pub run: RunId,
    pub step: String,
    pub dispatch: u64,
    pub node: NodeName,
    pub claimed_at: DateTime<Utc>,
    /// When its node last named the step in a heartbeat.
    pub heartbeat_at: DateTime<Utc>,
    /// How long it lasts without that, in milliseconds.
    pub lease_ms: u64,
}
