//! One decision on several requests: on all of them, or on none.

use std::collections::BTreeMap;

use holdpoint_ids::HoldId;
use serde::{Deserialize, Serialize};

use super::{Decision, Effect, RequestView, Votes};

/// A person decides several requests alike, in one commit: where one of them cannot be decided so,
/// none is. Needs a signed assertion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecideRequests {
    /// 1 to [`DecideRequests::IDS_MAX`] requests, each once, in any partition.
    pub ids: Vec<HoldId>,
    pub decision: Decision,
    /// The versions of some of them that the person has seen, where that matters to them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<HoldId, u64>,
}

impl DecideRequests {
    /// Most requests of one commit.
    pub const IDS_MAX: usize = 500;
}

/// The result of the decision for one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecidedOne {
    /// The effect on the run.
    pub effect: Effect,
    /// The votes so far, where more are needed: it is not decided yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub votes: Option<Votes>,
}

impl RequestView {
    /// The votes on what more of them are still to decide; none: it is decided, or one is enough.
    #[must_use]
    pub fn votes_so_far(&self) -> Option<Votes> {
        self.votes.filter(|_| self.outcome.is_none())
    }
}
