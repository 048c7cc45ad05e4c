//! The policies of a workspace, and what a request of a run gets from those that it names.

use std::collections::BTreeMap;
use std::convert::Infallible;

use chrono::{DateTime, Utc};
use holdpoint_calendar::WorkingHours;
use holdpoint_contracts::handoff::{PolicyRules, PolicyView};
use holdpoint_contracts::hold::HoldSpec;
use holdpoint_contracts::problem::FieldError;
use holdpoint_holds::ladder::default_ladder;
use holdpoint_holds::resolved_policies::{
    ResolvedPolicies, RunPolicies, StoredPolicies, resolve_run_policies,
};
use holdpoint_ids::PolicyName;

use super::ladder::Ladder;

/// The policies of a workspace when its rehearsal starts.
#[derive(Debug, Default)]
pub struct Policies(BTreeMap<PolicyName, PolicyRules>);

/// A request with the statements of its policies.
#[derive(Debug)]
pub(super) struct ResolvedRequest {
    pub(super) spec: Box<HoldSpec>,
    /// The time that a policy states where the step states none.
    pub(super) decide_within_ms: Option<u64>,
    pub(super) ladder: Ladder,
    /// Why an approval is not asked: its policies cannot be applied (S2-R4).
    pub(super) unavailable: Option<String>,
}

impl Policies {
    #[must_use]
    pub fn new(policies: Vec<PolicyView>) -> Self {
        let own = policies.into_iter().filter(|policy| !policy.built_in);
        Self(own.map(|policy| (policy.name, policy.rules)).collect())
    }

    /// The request with the statements of its policies, as the handoff service opens it.
    pub(super) fn resolve(&self, spec: Box<HoldSpec>, now: DateTime<Utc>) -> ResolvedRequest {
        let (policies, unavailable) = match resolve_run_policies(&spec, self) {
            Ok(RunPolicies::Resolved(policies)) => (*policies, None),
            Ok(RunPolicies::Unavailable(reason)) => (ResolvedPolicies::default(), Some(reason)),
        };
        let spec = Box::new(policies.apply(*spec));
        let ladder = if spec.ladder.is_empty() {
            let kind = policies.default_of.unwrap_or(spec.kind);
            Ladder::built_in(default_ladder(kind, spec.priority, spec.to.clone()), now)
        } else {
            // The calendar was validated before it was stored.
            let hours = policies.calendar.as_ref();
            let hours = hours.and_then(|calendar| WorkingHours::read(calendar).ok());
            Ladder::written(spec.ladder.clone(), hours, now)
        };
        ResolvedRequest {
            spec,
            decide_within_ms: policies.decide_within_ms,
            ladder,
            unavailable,
        }
    }
}

impl StoredPolicies for Policies {
    type Error = Infallible;

    fn rules(&self, name: &PolicyName) -> Result<Option<PolicyRules>, Infallible> {
        Ok(self.0.get(name).cloned())
    }

    fn unknown_policy(&self, name: &PolicyName) -> Result<FieldError, Infallible> {
        let message = format!("unknown policy `{name}`");
        Ok(FieldError::at("", message))
    }
}
