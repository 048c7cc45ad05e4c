//! When a lease ends (S4-R4).

use chrono::{DateTime, Utc};
use holdpoint_contracts::steps::NodeStatus;

use crate::domain::model::node::{Lease, Node};
use crate::domain::model::time::after;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseStatus {
    Valid,
    /// Its node must send a heartbeat at once. The version is the node's.
    ProbeNode(u64),
    Ended,
}

/// Decides about a lease by the heartbeats of its node.
#[must_use]
pub fn lease_status(lease: &Lease, node: Option<&Node>, now: DateTime<Utc>) -> LeaseStatus {
    let has_run_out = after(lease.heartbeat_at, lease.lease_ms) <= now;
    let Some(node) = node else {
        // The node never sent a heartbeat, so it cannot be probed.
        return if has_run_out {
            LeaseStatus::Ended
        } else {
            LeaseStatus::Valid
        };
    };
    match node.status {
        // A lease that was granted after its node had been given up is valid until it runs out.
        NodeStatus::Down if has_run_out || lease.heartbeat_at <= node.changed_at => {
            LeaseStatus::Ended
        }
        NodeStatus::Down | NodeStatus::Suspect => LeaseStatus::Valid,
        NodeStatus::Up | NodeStatus::Draining if !has_run_out => LeaseStatus::Valid,
        // The node lives, and has not named the step for half a lease or longer: it has forgotten it.
        NodeStatus::Up | NodeStatus::Draining
            if node.last_seen >= after(lease.heartbeat_at, lease.lease_ms / 2) =>
        {
            LeaseStatus::Ended
        }
        NodeStatus::Up | NodeStatus::Draining => LeaseStatus::ProbeNode(node.version),
    }
}
