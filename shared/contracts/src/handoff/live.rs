//! What the caller who watches requests is notified at once.

use std::collections::BTreeMap;

use holdpoint_ids::HoldId;
use serde::{Deserialize, Serialize};

/// Core message, one a batch and workspace: these requests have changed (S0-R3). It may be lost;
/// watchers also read from time to time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestNudge {
    /// Requests, each with its newest version.
    pub requests: BTreeMap<HoldId, u64>,
}
