//! What a token may at most: its user's rights, and no more than the role it is narrowed to.

use holdpoint_auth::{Claims, Right, Role, authorize, may};
use holdpoint_contracts::Problem;
use holdpoint_contracts::subject::FIRST_WORKSPACE;
use holdpoint_ids::RoleName;

/// 403 where somebody has not got a right in the first workspace, of those who run the installation: for
/// what concerns all workspaces (A-L4).
pub(crate) fn runs_installation(claims: &Claims, right: Right) -> Result<(), Problem> {
    authorize(Some(claims), right)?;
    if claims.workspace.as_str() == FIRST_WORKSPACE {
        return Ok(());
    }
    let detail = format!(
        "this concerns the whole installation, which is run from the workspace `{FIRST_WORKSPACE}`"
    );
    Err(Problem::new(403, "forbidden", detail))
}

/// A user's roles, narrowed. The rights are those that both the user and `cap` have; roles that
/// grant none (they name a group, for `@role.`) stay.
pub(crate) fn narrowed(roles: &[RoleName], cap: Option<Role>) -> Vec<RoleName> {
    let Some(cap) = cap else {
        return roles.to_vec();
    };
    let mut kept = groups(roles);
    let has = |right| may(cap, right) && grants(roles, right);
    kept.extend(highest(has).and_then(|role| role.as_str().parse().ok()));
    kept
}

/// Whether a narrowing took no right away.
pub(crate) fn is_whole(roles: &[RoleName], kept: &[RoleName]) -> bool {
    Right::ALL
        .into_iter()
        .all(|right| grants(roles, right) == grants(kept, right))
}

/// What is left of roles that a caller had, now that the user has others.
pub(crate) fn still(now: &[RoleName], then: &[RoleName]) -> Vec<RoleName> {
    match highest(|right| grants(then, right)) {
        Some(cap) => narrowed(now, Some(cap)),
        None => groups(now),
    }
}

/// Whether one of these roles has a right.
pub(crate) fn grants(roles: &[RoleName], right: Right) -> bool {
    roles
        .iter()
        .filter_map(|role| Role::named(role.as_str()))
        .any(|role| may(role, right))
}

/// The built-in role with the most rights of which `has` allows every one.
fn highest(has: impl Fn(Right) -> bool) -> Option<Role> {
    let rights = |role: Role| {
        Right::ALL
            .into_iter()
            .filter(move |right| may(role, *right))
    };
    Role::ALL
        .into_iter()
        .filter(|role| rights(*role).all(&has))
        .max_by_key(|role| rights(*role).count())
}

fn groups(roles: &[RoleName]) -> Vec<RoleName> {
    let is_group = |role: &&RoleName| Role::named(role.as_str()).is_none();
    roles.iter().filter(is_group).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles(names: &[&str]) -> Vec<RoleName> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    /// DESIGN, Identity: an agent's token can ask, never decide.
    #[test]
    fn a_token_has_never_more_than_its_user_and_never_more_than_its_role() {
        for (user, cap, left) in [
            (&["owner"][..], Some(Role::Agent), &["agent"][..]),
            (&["viewer"], Some(Role::Admin), &["viewer"]),
            (&["member", "ops"], Some(Role::Operator), &["ops", "member"]),
            (&["owner", "ops"], Some(Role::Viewer), &["ops", "viewer"]),
            (&["agent"], Some(Role::Viewer), &["viewer"]),
            (&["ops"], Some(Role::Owner), &["ops"]),
            (&["operator"], None, &["operator"]),
        ] {
            assert_eq!(narrowed(&roles(user), cap), roles(left), "{user:?} {cap:?}");
        }
    }

    /// Mend A-H2: a token that lacks a right of its user is not the person.
    #[test]
    fn a_token_is_whole_where_it_has_all_rights_of_its_user() {
        for (user, cap, whole) in [
            (&["owner"][..], None, true),
            (&["owner"], Some(Role::Owner), true),
            (&["viewer"], Some(Role::Admin), true),
            (&["owner"], Some(Role::Admin), false),
            (&["member", "ops"], Some(Role::Agent), false),
        ] {
            let user = roles(user);
            let kept = narrowed(&user, cap);
            assert_eq!(is_whole(&user, &kept), whole, "{user:?} {cap:?}");
        }
    }

    #[test]
    fn what_waited_is_done_with_what_is_left() {
        let owner = roles(&["owner"]);
        assert_eq!(still(&roles(&["viewer"]), &owner), roles(&["viewer"]));
        assert_eq!(still(&owner, &roles(&["agent"])), roles(&["agent"]));
        assert_eq!(still(&owner, &roles(&["ops"])), roles(&[]));
    }
}
