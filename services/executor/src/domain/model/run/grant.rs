//! A dispatch of a step, and the grant to a worker.

use chrono::{DateTime, Utc};
use holdpoint_contracts::steps::LEASE_DEFAULT_MS;
use holdpoint_ids::NodeName;
use serde::{Deserialize, Serialize};

/// A dispatch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dispatched {
    pub at: DateTime<Utc>,
    /// Whether doing it twice does no harm.
    pub idempotent: bool,
    /// How long a grant of it lasts without a heartbeat, in milliseconds (S4-R6).
    #[serde(default = "lease_default")]
    pub lease_ms: u64,
}

const fn lease_default() -> u64 {
    LEASE_DEFAULT_MS
}

/// A grant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepGrant {
    pub handed: Dispatched,
    pub node: NodeName,
    /// For which delivery: the same one asking again is a repetition, another one is not.
    pub delivery: u64,
    pub since: DateTime<Utc>,
}
