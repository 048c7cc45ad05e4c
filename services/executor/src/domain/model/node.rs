//! A worker process: whether it is there.
//!
//! A node that falls silent is asked first and given up after: moving the clock never takes work
//! from one that lives. What becomes of its leases is decided run by run, never here.

use chrono::{DateTime, Utc};
use holdpoint_contracts::steps::NodeStatus;
use holdpoint_ids::{NodeName, ToolName};
use serde::{Deserialize, Serialize};

/// A node's control state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub name: NodeName,
    /// Rises by one with every decision; also the number of its timer.
    pub version: u64,
    /// Whether it is there.
    pub status: NodeStatus,
    /// When its last heartbeat came.
    pub last_seen: DateTime<Utc>,
    /// When its status last changed.
    pub changed_at: DateTime<Utc>,
    /// What it can do.
    pub tools: Vec<ToolName>,
    /// Steps that wait at it for a place.
    pub queue_depth: u64,
    /// How long it may be silent, in milliseconds: its shortest lease.
    pub lease_ms: u64,
    /// Whether its row is to be removed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forgotten: bool,
}
