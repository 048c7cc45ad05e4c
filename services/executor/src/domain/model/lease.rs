//! A lease as its row stores it.

use chrono::{DateTime, Utc};
use holdpoint_ids::{NodeName, RunId, Workspace};

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
