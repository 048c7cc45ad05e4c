//! The built-in roles and their rights, and the one function that checks a right.

use holdpoint_contracts::Problem;
use holdpoint_ids::RoleName;
use strum::{EnumString, IntoStaticStr, VariantArray};

use crate::Claims;

/// A role that grants rights. Any other role only names a group of users, for `@role.`.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum Role {
    /// Everything.
    Owner,
    /// Everything except appointing owners.
    Admin,
    /// Agents, tools, runs and every request.
    Operator,
    /// Starts runs, and decides requests that are addressed to them.
    Member,
    /// Reads.
    Viewer,
    /// A program that asks and never decides.
    Agent,
}

impl Role {
    pub const ALL: &'static [Self] = Self::VARIANTS;

    #[must_use]
    pub const fn rights(self) -> &'static [Right] {
        use Right::{Administer, Ask, Decide, Look, Operate, Own};
        match self {
            Self::Owner => &[Look, Ask, Decide, Operate, Administer, Own],
            Self::Admin => &[Look, Ask, Decide, Operate, Administer],
            Self::Operator => &[Look, Ask, Decide, Operate],
            Self::Member => &[Look, Ask, Decide],
            Self::Viewer => &[Look],
            Self::Agent => &[Look, Ask],
        }
    }

    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        name.parse().ok()
    }
}

/// Something that needs a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Right {
    /// Read agents, runs, requests and contacts.
    Look,
    /// Start runs, open holds and change contacts.
    Ask,
    /// Decide a request that is addressed to the caller.
    Decide,
    /// Pause, resume and cancel runs, change agents and tools, and decide any request.
    Operate,
    /// Manage users, tokens, policies, the test clock and the workspace.
    Administer,
    /// Appoint or dismiss owners.
    Own,
}

impl Right {
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// The word in messages and tables.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Whether a built-in role has a right.
#[must_use]
pub fn may(role: Role, right: Right) -> bool {
    role.rights().contains(&right)
}

/// The one authorization function, which every command handler calls. `claims` is `None` for a command
/// without an assertion. NATS permissions limit who may publish it, and it never has the right to decide,
/// to administer or to own.
///
/// # Errors
/// 403 `forbidden`, with the roles that have the right.
pub fn authorize(claims: Option<&Claims>, right: Right) -> Result<(), Problem> {
    let allowed = match claims {
        None => matches!(right, Right::Look | Right::Ask | Right::Operate),
        Some(claims) => claims
            .roles
            .iter()
            .map(RoleName::as_str)
            .filter_map(Role::named)
            .any(|role| may(role, right)),
    };
    if allowed {
        return Ok(());
    }
    let able = Role::ALL.iter().filter(|role| may(**role, right));
    let needed: Vec<_> = able.map(|role| role.as_str()).collect();
    let who = claims.map_or_else(
        || "a command without a signed assertion".to_owned(),
        |claims| format!("`{}`", claims.user),
    );
    Err(Problem::new(
        403,
        "forbidden",
        format!(
            "{who} may not {}; that needs one of the roles {}",
            right.as_str(),
            needed.join(", ")
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(roles: &[&str]) -> Claims {
        Claims {
            workspace: "acme".parse().unwrap(),
            user: "ada".parse().unwrap(),
            roles: roles.iter().map(|role| role.parse().unwrap()).collect(),
            expires_at: chrono::DateTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn an_agent_asks_and_never_decides() {
        let agent = claims(&["agent"]);
        assert!(authorize(Some(&agent), Right::Ask).is_ok());
        for right in [Right::Decide, Right::Operate, Right::Administer, Right::Own] {
            let refused = authorize(Some(&agent), right).unwrap_err();
            assert_eq!((refused.status, refused.code.as_str()), (403, "forbidden"));
        }
    }

    #[test]
    fn an_unsigned_command_decides_nothing() {
        assert!(authorize(None, Right::Ask).is_ok());
        assert!(authorize(None, Right::Decide).is_err());
        assert!(authorize(None, Right::Administer).is_err());
    }

    #[test]
    fn a_role_that_is_not_built_in_grants_nothing() {
        assert!(authorize(Some(&claims(&["ops"])), Right::Look).is_err());
        assert!(authorize(Some(&claims(&["ops", "member"])), Right::Decide).is_ok());
    }

    #[test]
    fn every_higher_role_may_what_the_lower_may() {
        let ladder = [
            Role::Viewer,
            Role::Member,
            Role::Operator,
            Role::Admin,
            Role::Owner,
        ];
        for pair in ladder.windows(2) {
            for right in Right::ALL {
                assert!(!may(pair[0], *right) || may(pair[1], *right), "{right:?}");
            }
        }
    }
}
