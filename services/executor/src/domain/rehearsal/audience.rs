//! The active users of a workspace, and those of them who get a request.

use std::collections::{BTreeMap, BTreeSet};

use holdpoint_auth::{Right, Role};
use holdpoint_contracts::hold::HoldSpec;
use holdpoint_contracts::rehearsal::OWNERS as OWNERS_SHOWN;
use holdpoint_contracts::run::HoldKind;
use holdpoint_holds::limits::RECIPIENTS_MAX;
use holdpoint_holds::{OWNERS, Recipient};
use holdpoint_ids::{RoleName, UserName};

/// Most users of a workspace that a rehearsal knows, in the order of names. A user after them counts as active.
pub const USERS_MAX: usize = 10_000;

/// Most users of a role whose requests are counted, in the order of names.
pub const USERS_OF_ROLE_MAX: usize = 100;

/// The active users of a workspace, as a rehearsal finds them.
#[derive(Debug, Default)]
pub struct ActiveUsers {
    names: BTreeMap<UserName, Vec<RoleName>>,
    roles: BTreeMap<RoleName, BTreeSet<UserName>>,
    /// The workspace has more users.
    has_more: bool,
}

/// The users who get a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Audience {
    /// Texts of the recipients.
    pub(super) recipients: BTreeSet<String>,
    pub(super) users: BTreeSet<UserName>,
    /// A named user who does not exist or is disabled: the request ends at once (S0-R1).
    pub(super) inactive: Option<UserName>,
    /// Roles without an active user.
    pub(super) empty_roles: BTreeSet<String>,
}

impl ActiveUsers {
    /// Takes users in the order of names, each with their roles.
    pub fn new(users: impl IntoIterator<Item = (UserName, Vec<RoleName>)>) -> Self {
        let mut known = Self::default();
        for (name, roles) in users {
            if known.names.len() >= USERS_MAX {
                known.has_more = true;
                break;
            }
            for role in roles.iter().cloned() {
                let members = known.roles.entry(role).or_default();
                if members.len() < USERS_OF_ROLE_MAX {
                    members.insert(name.clone());
                }
            }
            known.names.insert(name, roles);
        }
        known
    }

    /// Resolves recipients as the handoff service does. The owners get a request that reaches no other user.
    pub(super) fn audience(&self, to: &[String]) -> Audience {
        let mut audience = Audience::default();
        if to.is_empty() {
            audience.recipients.insert(OWNERS_SHOWN.to_owned());
        }
        for text in to.iter().take(RECIPIENTS_MAX) {
            audience.recipients.insert(text.clone());
            match text.parse() {
                Ok(Recipient::User(name)) if self.has_more || self.names.contains_key(&name) => {
                    audience.users.insert(name);
                }
                Ok(Recipient::User(name)) => audience.inactive = Some(name),
                Ok(Recipient::Role(role)) => match self.roles.get(&role) {
                    Some(members) => audience.users.extend(members.iter().cloned()),
                    None if self.has_more => {}
                    None => drop(audience.empty_roles.insert(text.clone())),
                },
                Err(_) => drop(audience.empty_roles.insert(text.clone())),
            }
        }
        if audience.users.is_empty() {
            audience.users = self.owners();
        }
        audience
    }

    /// The recipients that are active; empty, which means the owners, if none is.
    pub(super) fn active_recipients(&self, to: &[String]) -> Vec<String> {
        let mut left = to.to_vec();
        while let Some(name) = self.audience(&left).inactive {
            let inactive = Recipient::user_text(&name);
            left.retain(|one| *one != inactive);
        }
        let is_lost = left.iter().all(|one| {
            let audience = self.audience(std::slice::from_ref(one));
            !audience.empty_roles.is_empty()
        });
        if is_lost { Vec::new() } else { left }
    }

    /// Adds the owners to an approval for which too few users can decide, as the handoff service does.
    pub(super) fn complete_quorum(&self, spec: &mut HoldSpec) {
        let owners = OWNERS.to_owned();
        if spec.kind != HoldKind::Approval || spec.to.is_empty() || spec.to.contains(&owners) {
            return;
        }
        let audience = self.audience(&spec.to);
        if self.has_more || audience.inactive.is_some() {
            return;
        }
        let operates = |role: &Role| holdpoint_auth::may(*role, Right::Operate);
        let operators = Role::ALL.iter().copied().filter(operates);
        let mut eligible = audience.users;
        eligible.extend(operators.flat_map(|role| self.members(role.as_str())));
        if eligible.len() < usize::try_from(spec.policy.need).unwrap_or(usize::MAX) {
            spec.to.push(owners);
        }
    }

    /// Whether a user may decide a request to these recipients. Users beyond [`USERS_MAX`] are not known to.
    pub(super) fn may_decide(&self, name: &UserName, to: &[String]) -> bool {
        let Some(roles) = self.names.get(name) else {
            return false;
        };
        let granting = roles.iter().filter_map(|role| Role::named(role.as_str()));
        let granting: Vec<_> = granting.collect();
        let has = |right| {
            granting
                .iter()
                .any(|role| holdpoint_auth::may(*role, right))
        };
        let is_named = |to: &String| match to.parse() {
            Ok(Recipient::User(user)) => user == *name,
            Ok(Recipient::Role(role)) => roles.contains(&role),
            Err(_) => false,
        };
        has(Right::Decide) && (has(Right::Operate) || to.iter().any(is_named))
    }

    fn owners(&self) -> BTreeSet<UserName> {
        self.members(Role::Owner.as_str())
    }

    fn members(&self, role: &str) -> BTreeSet<UserName> {
        let members = self.roles.iter().find(|(name, _)| name.as_str() == role);
        members.map(|(_, users)| users.clone()).unwrap_or_default()
    }
}

impl Audience {
    /// Those who are not in another audience.
    pub(super) fn without(&self, other: &Self) -> Self {
        let new = |all: &BTreeSet<String>, known| all.difference(known).cloned().collect();
        Self {
            recipients: new(&self.recipients, &other.recipients),
            users: self.users.difference(&other.users).cloned().collect(),
            inactive: None,
            empty_roles: new(&self.empty_roles, &other.empty_roles),
        }
    }

    pub(super) fn extend(&mut self, more: &Self) {
        self.recipients.extend(more.recipients.iter().cloned());
        self.users.extend(more.users.iter().cloned());
        self.empty_roles.extend(more.empty_roles.iter().cloned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(users: &[(&str, &[&str])]) -> ActiveUsers {
        ActiveUsers::new(users.iter().map(|(name, roles)| {
            let roles = roles.iter().map(|role| role.parse().unwrap());
            (name.parse().unwrap(), roles.collect())
        }))
    }

    fn names(audience: &Audience) -> Vec<&str> {
        audience.users.iter().map(UserName::as_str).collect()
    }

    #[test]
    fn recipients_are_resolved_to_active_users() {
        let users = users(&[
            ("ada", &["owner", "ops"]),
            ("bob", &["ops", "finance"]),
            ("cy", &[]),
        ]);
        let of = |to: &[&str]| {
            let to: Vec<_> = to.iter().map(|one| (*one).to_owned()).collect();
            users.audience(&to)
        };
        assert_eq!(names(&of(&["@role.ops"])), ["ada", "bob"]);
        assert_eq!(
            names(&of(&["@user.bob", "@role.ops", "@role.finance"])),
            ["ada", "bob"]
        );
        assert_eq!(names(&of(&[])), ["ada"], "the owners");
        let empty = of(&["@role.legal"]);
        assert_eq!(
            names(&empty),
            ["ada"],
            "the owners, instead of a role without a user"
        );
        assert_eq!(empty.empty_roles, ["@role.legal".to_owned()].into());
        let part = of(&["@role.legal", "@user.cy"]);
        assert_eq!(names(&part), ["cy"]);
        assert_eq!(part.empty_roles.len(), 1);
        let gone = of(&["@user.gone", "@role.ops"]);
        assert_eq!(gone.inactive.unwrap().as_str(), "gone");
    }

    #[test]
    fn recipients_and_operators_may_decide() {
        let users = users(&[
            ("ada", &["owner"]),
            ("bob", &["member", "finance"]),
            ("cy", &["finance"]),
            ("dan", &["member"]),
        ]);
        let may = |name: &str, to: &[&str]| {
            let to: Vec<_> = to.iter().map(|one| (*one).to_owned()).collect();
            users.may_decide(&name.parse().unwrap(), &to)
        };
        assert!(may("ada", &["@role.finance"]), "an operator");
        assert!(may("bob", &["@role.finance"]) && may("dan", &["@user.dan"]));
        assert!(!may("bob", &[]) && !may("dan", &["@role.finance"]));
        assert!(
            !may("cy", &["@role.finance"]),
            "without the right to decide"
        );
        assert!(!may("gone", &["@user.gone"]));
    }

    #[test]
    fn users_are_bounded() {
        let many = |count: usize| {
            ActiveUsers::new((0..count).map(|n| {
                let name = format!("u{n:05}").parse().unwrap();
                (name, vec!["ops".parse().unwrap()])
            }))
        };
        let of = |users: &ActiveUsers, to: &str| users.audience(&[to.to_owned()]);
        let all = many(USERS_MAX);
        assert_eq!(of(&all, "@role.ops").users.len(), USERS_OF_ROLE_MAX);
        assert!(of(&all, "@user.zoe").inactive.is_some());
        assert_eq!(of(&all, "@role.legal").empty_roles.len(), 1);
        let more = many(USERS_MAX + 1);
        assert_eq!(
            names(&of(&more, "@user.zoe")),
            ["zoe"],
            "she may be among the others"
        );
        assert!(of(&more, "@role.legal").empty_roles.is_empty());
    }
}
