//! Users: who somebody is in a workspace, and with which roles.

use std::collections::BTreeSet;

use holdpoint_auth::{Right, Role};
use holdpoint_contracts::handoff::UserView;
use holdpoint_contracts::problem::FieldError;
use holdpoint_ids::{RoleName, UserName, Workspace};
use serde::{Deserialize, Serialize};

use super::caller::{Caller, allow};
use super::limits::{EMAIL_BYTES_MAX, ROLES_MAX};
use super::refusal::Refusal;
use super::{
    Aggregate, Change, Effect, Fact, Lookup, LookupFn, Need, Outcome, Reply, Undecided, UserInput,
};

/// A person, or a program with rights of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub workspace: Workspace,
    /// Who; `@user.<name>`.
    pub name: UserName,
    pub email: Option<String>,
    /// Built-in ones grant rights, any other is for `@role.` only.
    pub roles: BTreeSet<RoleName>,
    /// False: disabled.
    pub active: bool,
    /// Rises with every change.
    pub version: u64,
    /// Disabled, and what is put to them is still on its way to others.
    #[serde(default)]
    pub is_leaving: bool,
    /// Roles that they had, and have no more: what is put to one of them may have nobody left.
    #[serde(default)]
    pub left_roles: BTreeSet<RoleName>,
}

impl User {
    /// Whether the user is one of those without whom the workspace would be lost.
    #[must_use]
    pub fn is_active_owner(&self) -> bool {
        self.active && has_owner(&self.roles)
    }

    /// Whether something that was put to them, or to a role of theirs, may be on its way to others.
    #[must_use]
    pub fn is_followed(&self) -> bool {
        self.is_leaving || !self.left_roles.is_empty()
    }

    /// All roles that nobody may have any more once these are theirs.
    fn roles_left_for(&self, roles: &BTreeSet<RoleName>) -> BTreeSet<RoleName> {
        let had = self.roles.iter().filter(|_| self.active);
        let left = self.left_roles.iter().chain(had);
        left.filter(|role| !roles.contains(*role))
            .cloned()
            .collect()
    }

    /// As the API shows it.
    #[must_use]
    pub fn view(&self) -> UserView {
        UserView {
            name: self.name.clone(),
            email: self.email.clone(),
            roles: self.roles.iter().cloned().collect(),
            active: self.active,
            version: self.version,
        }
    }
}

fn has_owner(roles: &BTreeSet<RoleName>) -> bool {
    roles
        .iter()
        .any(|role| role.as_str() == Role::Owner.as_str())
}

/// Which user, of which workspace.
pub(crate) struct Place<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) name: &'a UserName,
}

pub(crate) fn decide(
    user: Option<&User>,
    place: &Place<'_>,
    caller: &Caller,
    input: &UserInput,
    lookup: LookupFn<'_>,
) -> Result<Outcome, Undecided> {
    let next = match (user, input) {
        (None, UserInput::Disable) => {
            allow(caller, place.workspace, Right::Administer, lookup)?;
            return Err(Refusal::NoUser(place.name.clone()).into());
        }
        (Some(user), UserInput::Disable) => User {
            active: false,
            is_leaving: user.active || user.is_leaving,
            left_roles: user.roles_left_for(&BTreeSet::new()),
            ..user.clone()
        },
        (user, UserInput::Left { roles }) => return Ok(left(user, roles)),
        (_, UserInput::Assigned { email, roles }) => User {
            workspace: place.workspace.clone(),
            name: place.name.clone(),
            email: email.clone(),
            roles: roles.clone(),
            active: true,
            version: user.map_or(0, |user| user.version),
            is_leaving: false,
            left_roles: user.map_or_else(BTreeSet::new, |user| user.roles_left_for(roles)),
        },
    };
    let was_owner = user.is_some_and(User::is_active_owner);
    let changes_owner = was_owner != next.is_active_owner()
        || user.is_some_and(|user| has_owner(&user.roles)) != has_owner(&next.roles);
    if !is_first(caller, input, place.workspace, lookup)? {
        let right = if changes_owner {
            Right::Own
        } else {
            Right::Administer
        };
        allow(caller, place.workspace, right, lookup)?;
    } else if !next.is_active_owner() {
        let error = FieldError::at("/roles", "the first user of a workspace is an owner");
        return Err(Refusal::InvalidUser(vec![error]).into());
    }
    let errors = faults(&next);
    if !errors.is_empty() {
        return Err(Refusal::InvalidUser(errors).into());
    }
    if user == Some(&next) {
        return Ok(Outcome::Unchanged(Reply::User(next.view())));
    }
    let mut facts = vec![(Need::Members(place.workspace.clone()), Fact::Members(true))];
    if changes_owner {
        facts.push(owners_after(&next, lookup)?);
    }
    Ok(changed(next, facts))
}

/// Nobody is told: who somebody is has not changed.
fn left(user: Option<&User>, looked_at: &BTreeSet<RoleName>) -> Outcome {
    match user.filter(|user| user.is_followed()) {
        None => Outcome::Unchanged(Reply::EventRecorded),
        Some(user) => Outcome::Decided(Box::new(Change {
            state: Aggregate::User(User {
                is_leaving: false,
                left_roles: &user.left_roles - looked_at,
                version: user.version + 1,
                ..user.clone()
            }),
            effects: Vec::new(),
            facts: Vec::new(),
            reply: Reply::EventRecorded,
        })),
    }
}

/// A service may make the first user of a workspace: there is nobody yet who could.
fn is_first(
    caller: &Caller,
    input: &UserInput,
    workspace: &Workspace,
    lookup: LookupFn<'_>,
) -> Result<bool, Undecided> {
    if !caller.is_service() || *input == UserInput::Disable {
        return Ok(false);
    }
    let need = Need::Members(workspace.clone());
    match lookup(&need) {
        Lookup::NotLoaded => Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(Fact::Members(any)) => Ok(!any),
        Lookup::Found(
            Fact::User(_)
            | Fact::Owners(_)
            | Fact::Role(_)
            | Fact::Loads(_)
            | Fact::Policy(_)
            | Fact::Policies(_)
            | Fact::Request(_),
        )
        | Lookup::Missing => Ok(true),
    }
}

/// The active owners once `next` is saved; there must be one.
fn owners_after(next: &User, lookup: LookupFn<'_>) -> Result<(Need, Fact), Undecided> {
    let need = Need::Owners(next.workspace.clone());
    let mut owners = match lookup(&need) {
        Lookup::NotLoaded => return Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(Fact::Owners(owners)) => owners,
        Lookup::Found(
            Fact::User(_)
            | Fact::Members(_)
            | Fact::Role(_)
            | Fact::Loads(_)
            | Fact::Policy(_)
            | Fact::Policies(_)
            | Fact::Request(_),
        )
        | Lookup::Missing => BTreeSet::new(),
    };
    if next.is_active_owner() {
        owners.insert(next.name.clone());
    } else if owners.remove(&next.name) && owners.is_empty() {
        return Err(Refusal::LastOwner(next.name.clone()).into());
    }
    Ok((need, Fact::Owners(owners)))
}

fn faults(user: &User) -> Vec<FieldError> {
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
        let message = format!("`name@host`, at most {EMAIL_BYTES_MAX} bytes");
        errors.push(FieldError::at("/email", message));
    }
    if user.roles.len() > ROLES_MAX {
        errors.push(FieldError::at(
            "/roles",
            format!("at most {ROLES_MAX} roles"),
        ));
    }
    errors
}

fn changed(mut user: User, facts: Vec<(Need, Fact)>) -> Outcome {
    user.version += 1;
    let view = user.view();
    Outcome::Decided(Box::new(Change {
        effects: vec![Effect::UserChanged {
            workspace: user.workspace.clone(),
            user: view.clone(),
        }],
        state: Aggregate::User(user),
        facts,
        reply: Reply::User(view),
    }))
}
