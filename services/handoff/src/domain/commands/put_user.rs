//! `handoff.put_user`: an administrator creates, changes or enables a user.

use std::collections::BTreeSet;

use holdpoint_ids::{RoleName, UserName};

use crate::domain::decision::{Outcome, Undecided};
use crate::domain::input::Caller;
use crate::domain::lookup::Facts;
use crate::domain::model::user::User;
use crate::domain::refusal::Refusal;
use crate::domain::rules::authorization::require_right;
use crate::domain::rules::user_change::{change_user, right_for};

/// The fields of a user that the caller sets.
pub(crate) struct UserProfile<'a> {
    pub(crate) name: &'a UserName,
    pub(crate) email: &'a Option<String>,
    pub(crate) roles: &'a BTreeSet<RoleName>,
}

pub(crate) fn put_user(
    user: Option<&User>,
    wanted: &UserProfile<'_>,
    caller: &Caller,
    facts: Facts<'_>,
) -> Result<Outcome, Undecided> {
    let roles = wanted.roles;
    let next = User {
        workspace: facts.workspace.clone(),
        name: wanted.name.clone(),
        email: wanted.email.clone(),
        roles: roles.clone(),
        active: true,
        version: user.map_or(0, |user| user.version),
        is_leaving: false,
        left_roles: user.map_or_else(BTreeSet::new, |user| user.former_roles_with(roles)),
    };
    // A service creates the first user of a workspace, because no user could.
    let is_first = caller.is_service() && !facts.has_users()?;
    if !is_first {
        require_right(caller, right_for(user, &next), facts)?;
    } else if !next.is_active_owner() {
        let message = "the first user of a workspace must have the role `owner`";
        return Err(Refusal::invalid_field("/roles", message).into());
    }
    change_user(user, next, facts)
}
