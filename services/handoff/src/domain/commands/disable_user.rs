//! `handoff.disable_user`: an administrator disables a user. The sweep then reassigns the requests of the user.

use std::collections::BTreeSet;

use holdpoint_auth::Right;
use holdpoint_ids::{RoleName, UserName};

use crate::domain::decision::{Change, Outcome, Undecided};
use crate::domain::effect::Reply;
use crate::domain::input::Caller;
use crate::domain::lookup::Facts;
use crate::domain::model::aggregate::Aggregate;
use crate::domain::model::user::User;
use crate::domain::refusal::Refusal;
use crate::domain::rules::authorization::require_right;
use crate::domain::rules::user_change::{change_user, right_for};

pub(crate) fn disable_user(
    user: Option<&User>,
    name: &UserName,
    caller: &Caller,
    facts: Facts<'_>,
) -> Result<Outcome, Undecided> {
    let Some(user) = user else {
        require_right(caller, Right::Administer, facts)?;
        return Err(Refusal::NoUser(name.clone()).into());
    };
    let next = User {
        active: false,
        is_leaving: user.active || user.is_leaving,
        left_roles: user.former_roles_with(&BTreeSet::new()),
        ..user.clone()
    };
    require_right(caller, right_for(Some(user), &next), facts)?;
    change_user(Some(user), next, facts)
}

/// The sweep has reassigned all requests of a disabled user and of these former roles. User directories do
/// not change, so there is no effect.
pub(crate) fn finish_reassignment(user: Option<&User>, checked: &BTreeSet<RoleName>) -> Outcome {
    let Some(user) = user.filter(|user| user.is_followed()) else {
        return Outcome::Unchanged(Reply::EventRecorded);
    };
    Outcome::Decided(Box::new(Change {
        state: Aggregate::User(User {
            is_leaving: false,
            left_roles: &user.left_roles - checked,
            version: user.version + 1,
            ..user.clone()
        }),
        effects: Vec::new(),
        facts: Vec::new(),
        reply: Reply::EventRecorded,
    }))
}
