//! What every change of a user must keep: valid fields, and an active owner in the workspace.

use std::collections::BTreeSet;

use holdpoint_auth::Right;
use holdpoint_contracts::problem::FieldError;
use holdpoint_ids::UserName;

use crate::domain::decision::{Change, Fact, Need, Outcome, Undecided};
use crate::domain::effect::{Effect, Reply};
use crate::domain::lookup::Facts;
use crate::domain::model::aggregate::Aggregate;
use crate::domain::model::limits::{EMAIL_BYTES_MAX, ROLES_MAX};
use crate::domain::model::user::User;
use crate::domain::refusal::Refusal;

/// The right that a change needs: only an owner changes who is an owner.
pub(crate) fn right_for(user: Option<&User>, next: &User) -> Right {
    if changes_owner(user, next) {
        Right::Own
    } else {
        Right::Administer
    }
}

fn changes_owner(user: Option<&User>, next: &User) -> bool {
    let was_active = user.is_some_and(User::is_active_owner);
    let had_role = user.map(User::has_owner_role);
    was_active != next.is_active_owner() || had_role.is_some_and(|had| had != next.has_owner_role())
}

/// Saves the changed user, or refuses the change. `next` still has the old version.
pub(crate) fn change_user(
    user: Option<&User>,
    next: User,
    facts: Facts<'_>,
) -> Result<Outcome, Undecided> {
    let errors = validate(&next);
    if !errors.is_empty() {
        return Err(Refusal::InvalidFields(errors).into());
    }
    if user == Some(&next) {
        return Ok(Outcome::Unchanged(Reply::User(next.view())));
    }
    let members = Need::Members(facts.workspace.clone());
    let mut new_facts = vec![(members, Fact::Members(true))];
    if changes_owner(user, &next) {
        let owners = Need::Owners(facts.workspace.clone());
        new_facts.push((owners, Fact::Owners(owners_after(&next, facts)?)));
    }
    let next = User {
        version: next.version + 1,
        ..next
    };
    let view = next.view();
    Ok(Outcome::Decided(Box::new(Change {
        effects: vec![Effect::UserChanged(next.workspace.clone(), view.clone())],
        state: Aggregate::User(next),
        facts: new_facts,
        reply: Reply::User(view),
    })))
}

/// The active owners after the change; there must be one.
fn owners_after(next: &User, facts: Facts<'_>) -> Result<BTreeSet<UserName>, Undecided> {
    let mut owners = facts.owners()?;
    if next.is_active_owner() {
        owners.insert(next.name.clone());
    } else if owners.remove(&next.name) && owners.is_empty() {
        return Err(Refusal::LastOwner(next.name.clone()).into());
    }
    Ok(owners)
}

fn validate(user: &User) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let is_address = |email: &str| {
        email.len() <= EMAIL_BYTES_MAX
            && !email.chars().any(|c| c.is_control() || c.is_whitespace())
            && email
                .split_once('@')
                .is_some_and(|(name, host)| !name.is_empty() && !host.is_empty())
    };
    if user
        .email
        .as_deref()
        .is_some_and(|email| !is_address(email))
    {
        let message = format!("expected `name@host` of at most {EMAIL_BYTES_MAX} bytes");
        errors.push(FieldError::at("/email", message));
    }
    if user.roles.len() > ROLES_MAX {
        let message = format!("expected at most {ROLES_MAX} roles");
        errors.push(FieldError::at("/roles", message));
    }
    errors
}
