//! `handoff.delete_policy`: an administrator deletes a policy, so that requests cannot name it.

use holdpoint_ids::PolicyName;

use super::put_policy::{require_policy_change, save_policy};
use crate::domain::caller::Caller;
use crate::domain::decision::{Outcome, Undecided};
use crate::domain::lookup::Facts;
use crate::domain::model::policy::Policy;
use crate::domain::refusal::Refusal;

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
