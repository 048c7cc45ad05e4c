//! Policies, and what they resolve to for a request.

use std::collections::BTreeMap;

use holdpoint_contracts::handoff::{Calendar, PolicyRules, PolicyView};
use holdpoint_contracts::hold::{HoldSpec, Policy as Votes, Rung};
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::{PolicyName, Workspace};
use serde::{Deserialize, Serialize};

/// A policy's state. A deleted policy keeps its row, so that its version goes on rising.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    pub workspace: Workspace,
    pub name: PolicyName,
    pub rules: PolicyRules,
    /// Rises with every change.
    pub version: u64,
    /// A deleted policy cannot be named.
    pub deleted: bool,
}

impl Policy {
    /// The policy as the API shows it.
    #[must_use]
    pub fn view(&self) -> PolicyView {
        PolicyView {
            name: self.name.clone(),
            rules: self.rules.clone(),
            version: self.version,
            built_in: false,
            by_priority: BTreeMap::new(),
        }
    }
}

/// What the policies of a request stated when the request was opened. Later changes of a policy do not
/// change open requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResolvedPolicies {
    /// Recipients, instead of those of the request.
    pub to: Option<Vec<String>>,
    /// How many users must agree, and who is excluded.
    pub votes: Option<Votes>,
    /// Timeout in milliseconds where the request states none.
    pub decide_within_ms: Option<u64>,
    /// Longest time in which an approval permits its call, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_ms: Option<u64>,
    pub ladder: Vec<Rung>,
    /// The default ladder of this kind counts instead of that of the request's kind.
    pub default_of: Option<HoldKind>,
    /// Working time in which rungs count and fire. None: all time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calendar: Option<Calendar>,
    /// Time without reminders after an acknowledgement, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acknowledged_for_ms: Option<u64>,
    /// Accepting the request stops the ladder.
    pub stops_on_accept: bool,
    /// Texts for the request's history.
    pub notes: Vec<String>,
}

impl ResolvedPolicies {
    /// The spec with the statements of the policies.
    pub(crate) fn apply(&self, spec: HoldSpec) -> HoldSpec {
        HoldSpec {
            to: self.to.clone().unwrap_or(spec.to),
            policy: self.votes.unwrap_or(spec.policy),
            ladder: if self.ladder.is_empty() {
                spec.ladder
            } else {
                self.ladder.clone()
            },
            ..spec
        }
    }
}
