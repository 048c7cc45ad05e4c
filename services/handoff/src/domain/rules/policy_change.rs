//! Who may change a policy, and what every change does.

use std::collections::BTreeSet;

use holdpoint_auth::Right;
use holdpoint_ids::PolicyName;

use super::authorization::require_right;
use super::built_in_policies::is_reserved;
use crate::domain::decision::{Change, Fact, Need, Outcome, Undecided};
use crate::domain::effect::Reply;
use crate::domain::input::Caller;
use crate::domain::lookup::Facts;
use crate::domain::model::aggregate::Aggregate;
use crate::domain::model::policy::Policy;
use crate::domain::refusal::Refusal;

/// Requires an administrator and a name that is not reserved. Returns the names of the workspace's policies.
pub(crate) fn require_policy_change(
    name: &PolicyName,
    caller: &Caller,
    facts: Facts<'_>,
) -> Result<BTreeSet<PolicyName>, Undecided> {
    require_right(caller, Right::Administer, facts)?;
    if is_reserved(name) {
        return Err(Refusal::BuiltIn(name.clone()).into());
    }
    facts.policy_names()
}

/// Later decisions of the same batch must count the same policies.
pub(crate) fn save_policy(next: Policy, names: BTreeSet<PolicyName>) -> Outcome {
    let reply = Reply::Policy(Box::new(next.view()));
    let need = Need::Policies(next.workspace.clone());
    Outcome::Decided(Box::new(Change {
        state: Aggregate::Policy(Box::new(next)),
        effects: Vec::new(),
        facts: vec![(need, Fact::Policies(names))],
        reply,
    }))
}
