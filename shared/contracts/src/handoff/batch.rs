//! One decision on several requests: on all of them, or on none.

use std::collections::BTreeMap;

use holdpoint_ids::HoldId;
use serde::{Deserialize, Serialize};

use super::{Decision, Effect, RequestView, SERVICE, Votes};
use crate::message::{Command, Reply};

/// A person decides several requests alike, in one commit: where one of them cannot be decided so,
/// none is. Needs a signed assertion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecideRequests {
    /// Which: 1 to [`DecideRequests::IDS_MAX`], each once, in any partition.
    pub ids: Vec<HoldId>,
    /// The decision.
    pub decision: Decision,
    /// The versions of some of them that the person has seen, where that matters to them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<HoldId, u64>,
}
command!(
    DecideRequests,
    "decide_requests",
    Vec<Reply<DecidedOne>>,
    |it| it.ids.first().map(HoldId::to_string).unwrap_or_default()
);

impl DecideRequests {
    /// Most requests of one commit.
    pub const IDS_MAX: usize = 500;
}

/// What became of the decision on one of several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecidedOne {
    /// What it did to the run.
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
