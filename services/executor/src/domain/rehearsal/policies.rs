//! The policies of a workspace, and what a request of a run gets from those that it names.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_calendar::WorkingHours;
use holdpoint_contracts::handoff::{ApprovalRules, EscalationRules, PolicyRules, PolicyView};
use holdpoint_contracts::hold::{HoldSpec, Policy as Votes};
use holdpoint_contracts::run::HoldKind;
use holdpoint_holds::ladder::{default_ladder, expand_rung, kind_of_built_in};
use holdpoint_holds::limits::POLICIES_MAX;
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

    /// Applies the policies that a request of a run names, as the handoff service does. One that is unknown, or that
    /// states the same as another one, has no effect on a question or a handoff, and an approval is not asked.
    pub(super) fn resolve(&self, spec: Box<HoldSpec>, now: DateTime<Utc>) -> ResolvedRequest {
        let mut decide_within_ms = None;
        let mut spec = spec;
        let (mut default_of, mut written) = (None, None);
        let (mut has_votes, mut unavailable) = (false, None);
        for name in spec.policies.clone().iter().take(POLICIES_MAX) {
            let has_rungs = default_of.is_some() || written.is_some();
            match (kind_of_built_in(name), self.0.get(name)) {
                (Some(kind), _) if !has_rungs => default_of = Some(kind),
                (None, Some(PolicyRules::Escalation(rules))) if !has_rungs => {
                    written = Some(written_ladder(rules, now));
                }
                (None, Some(PolicyRules::Approval(rules)))
                    if !has_votes && takes_votes(&spec, rules) =>
                {
                    has_votes = true;
                    apply_approval(&mut spec, rules);
                    decide_within_ms = rules.decide_within.filter(|_| spec.time_by_policy);
                }
                (None, None) => unavailable = Some(format!("unknown policy `{name}`")),
                (Some(_), _) | (None, Some(_)) => {
                    unavailable = Some(format!("`{name}` states the same as another policy"));
                }
            }
        }
        let built_in = || {
            let kind = default_of.unwrap_or(spec.kind);
            let rungs = default_ladder(kind, spec.priority, spec.to.clone());
            Ladder::built_in(rungs, now)
        };
        ResolvedRequest {
            ladder: written.unwrap_or_else(built_in),
            decide_within_ms,
            unavailable: unavailable.filter(|_| spec.kind == HoldKind::Approval),
            spec,
        }
    }
}

/// Several people decide only approvals. An approval may state votes beside its policy.
fn takes_votes(spec: &HoldSpec, rules: &ApprovalRules) -> bool {
    spec.kind == HoldKind::Approval || (spec.policy == Votes::default() && rules.need <= 1)
}

fn apply_approval(spec: &mut HoldSpec, rules: &ApprovalRules) {
    // The stricter rule counts.
    spec.policy = Votes {
        need: rules.need.max(spec.policy.need),
        not_requester: rules.not_requester || spec.policy.not_requester,
    };
    if !rules.from.is_empty() {
        spec.to.clone_from(&rules.from);
    }
}

fn written_ladder(rules: &EscalationRules, now: DateTime<Utc>) -> Ladder {
    let calendar = rules.calendar.as_ref();
    // The calendar was validated before it was stored.
    let hours = calendar.and_then(|calendar| WorkingHours::read(calendar).ok());
    let rungs = rules.rungs.iter().flat_map(expand_rung).collect();
    Ladder::written(rungs, hours, now)
}
