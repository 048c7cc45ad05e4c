//! The rights of a token: those of its user, limited by the role that the token is narrowed to.

use holdpoint_auth::{Claims, Right, Role, authorize, may};
use holdpoint_contracts::Problem;
use holdpoint_contracts::subject::FIRST_WORKSPACE;
use holdpoint_ids::RoleName;

/// 403 where the caller lacks a right in the first workspace. Its users run the installation, and only they
/// do what affects all workspaces (A-L4).
pub(crate) fn require_installation_right(claims: &Claims, right: Right) -> Result<(), Problem> {
    authorize(Some(claims), right)?;
    if claims.workspace.as_str() == FIRST_WORKSPACE {
        return Ok(());
    }
    let detail = format!(
        "this affects the whole installation; only users of the workspace `{FIRST_WORKSPACE}` may do it"
    );
    Err(Problem::new(403, "forbidden", detail))
}

/// Roles with the rights that both the user and `cap` have. Roles without rights are kept, because they
/// name a group for `@role.`.
pub(crate) fn narrow_roles(roles: &[RoleName], cap: Option<Role>) -> Vec<RoleName> {
    let Some(cap) = cap else {
        return roles.to_vec();
    };
    let mut kept = group_roles(roles);
    let has = |right| may(cap, right) && grants(roles, right);
    kept.extend(highest_role(has).and_then(|role| role.as_str().parse().ok()));
    kept
}

/// Whether narrowed roles have all rights of the roles before.
pub(crate) fn has_all_rights(roles: &[RoleName], kept: &[RoleName]) -> bool {
    let is_kept = |right: &Right| grants(roles, *right) == grants(kept, *right);
    Right::ALL.iter().all(is_kept)
}

/// The current roles of a user, limited to the rights of earlier ones.
pub(crate) fn limit_to_earlier(now: &[RoleName], then: &[RoleName]) -> Vec<RoleName> {
    match highest_role(|right| grants(then, right)) {
        Some(cap) => narrow_roles(now, Some(cap)),
        None => group_roles(now),
    }
}

/// Whether one of these roles has a right.
pub(crate) fn grants(roles: &[RoleName], right: Right) -> bool {
    roles
        .iter()
        .filter_map(|role| Role::named(role.as_str()))
        .any(|role| may(role, right))
}

/// The built-in role with the most rights that has no right beyond `has`.
fn highest_role(has: impl Fn(Right) -> bool) -> Option<Role> {
    let fits = |role: &Role| role.rights().iter().all(|right| has(*right));
    let roles = Role::ALL.iter().copied().filter(fits);
    roles.max_by_key(|role| role.rights().len())
}

fn group_roles(roles: &[RoleName]) -> Vec<RoleName> {
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
            assert_eq!(
                narrow_roles(&roles(user), cap),
                roles(left),
                "{user:?} {cap:?}"
            );
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
            let kept = narrow_roles(&user, cap);
            assert_eq!(has_all_rights(&user, &kept), whole, "{user:?} {cap:?}");
        }
    }

    #[test]
    fn a_deferred_command_keeps_no_right_that_its_caller_lost() {
        let owner = roles(&["owner"]);
        assert_eq!(
            limit_to_earlier(&roles(&["viewer"]), &owner),
            roles(&["viewer"])
        );
        assert_eq!(
            limit_to_earlier(&owner, &roles(&["agent"])),
            roles(&["agent"])
        );
        assert_eq!(limit_to_earlier(&owner, &roles(&["ops"])), roles(&[]));
    }
}
