//! `handoff.delete_policy`: an administrator deletes a policy. Requests cannot name it any more.

use holdpoint_ids::PolicyName;

use crate::domain::decision::{Outcome, Undecided};
use crate::domain::input::Caller;
use crate::domain::lookup::Facts;
use crate::domain::model::policy::Policy;
use crate::domain::refusal::Refusal;
use crate::domain::rules::policy_change::{require_policy_change, save_policy};

pub(crate) fn delete_policy(
    policy: Option<&Policy>,
    name: &PolicyName,
    caller: &Caller,
    facts: Facts<'_>,
) -> Result<Outcome, Undecided> {
    let mut names = require_policy_change(name, caller, facts)?;
    let Some(policy) = policy.filter(|policy| !policy.deleted) else {
        return Err(Refusal::NoPolicy(name.clone()).into());
    };
    names.remove(name);
    let next = Policy {
        version: policy.version + 1,
        deleted: true,
        ..policy.clone()
    };
    Ok(save_policy(next, names))
}
