//! Whom a request is put to: names and roles, who of them is there, and who of them gets it (S0-R1).

use std::collections::{BTreeMap, BTreeSet};

use holdpoint_auth::{Right, Role};
use holdpoint_contracts::hold::{Assign, HoldSpec};
use holdpoint_contracts::problem::FieldError;
use holdpoint_ids::{RoleName, UserName, Workspace};

use super::caller::active_user;
use super::limits::TO_MAX;
use super::settled::at_once;
use super::{DecisionContext, Fact, Lookup, LookupFn, Need, Undecided};

/// One of those a request is put to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recipient {
    /// `@user.<name>`
    User(UserName),
    /// `@role.<name>`
    Role(RoleName),
}

impl std::fmt::Display for Recipient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::User(name) => write!(f, "@user.{name}"),
            Self::Role(role) => write!(f, "@role.{role}"),
        }
    }
}

fn read(to: &str) -> Option<Recipient> {
    if let Some(name) = to.strip_prefix("@user.") {
        return name.parse().ok().map(Recipient::User);
    }
    let role = to.strip_prefix("@role.")?;
    role.parse().ok().map(Recipient::Role)
}

/// Who may not decide a request under `not_requester`: the requester, and whoever opened it for them.
/// With one of the two alone, a caller would name another requester and decide their own request (A-H5).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Barred(Vec<String>);

impl Barred {
    /// The requester and the openers of a hold; nobody where its policy does not say so.
    pub(crate) fn of<'n>(spec: &'n HoldSpec, openers: impl IntoIterator<Item = &'n str>) -> Self {
        if !spec.policy.not_requester {
            return Self::default();
        }
        let mut names: Vec<String> = Vec::new();
        for name in spec.requester.as_deref().into_iter().chain(openers) {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        Self(names)
    }

    pub(crate) fn bars(&self, name: &UserName) -> bool {
        self.0.iter().any(|barred| barred == name.as_str())
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn names(&self) -> String {
        self.0.join("` and `")
    }
}

/// Who of an audience gets it, and who never.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    pub(crate) assign: Assign,
    /// Not to be chosen: may not decide it.
    pub(crate) barred: Barred,
}

/// What a request that is put to somebody begins with.
#[derive(Debug)]
pub(crate) enum Plan {
    /// Somebody who is named is not there, or disabled.
    Inactive(String),
    /// It can be asked.
    Assigned(Box<Assigned>),
}

/// Who gets it.
#[derive(Debug)]
pub(crate) struct Assigned {
    pub(crate) assignee: Option<UserName>,
    /// Whom it is put to instead of those who were named.
    pub(crate) reassigned_to: Option<Vec<String>>,
    /// Nobody is there but who may not decide it.
    pub(crate) only_never: bool,
    /// What history is to say of that.
    pub(crate) note: Option<String>,
    /// What later decisions of the same batch count with.
    pub(crate) fact: Option<(Need, Fact)>,
}

/// What was found about an audience.
#[derive(Default)]
struct Seen {
    named: BTreeSet<UserName>,
    missing: Option<String>,
    /// Active members of the roles.
    members: BTreeSet<UserName>,
    empty_roles: Vec<String>,
}

/// Finds out who gets what is put to `to`.
pub(crate) fn plan(
    to: &[String],
    rules: &Rules,
    context: &DecisionContext<'_>,
) -> Result<Plan, Undecided> {
    let seen = see(to, context)?;
    if let Some(name) = seen.missing {
        return Ok(Plan::Inactive(name));
    }
    let may = |name: &&UserName| !rules.barred.bars(name);
    let nobody_is_there = seen.named.is_empty() && seen.members.is_empty();
    let nobody_may = !seen
        .named
        .iter()
        .chain(&seen.members)
        .any(|name| may(&name));
    let is_lost = !to.is_empty() && nobody_may;
    let reassigned_to = is_lost.then(Vec::new);
    let mut notes = Vec::new();
    if is_lost && nobody_is_there {
        let roles = seen.empty_roles.join(", ");
        notes.push(format!("nobody active is in {roles}: put to the owners"));
    } else if is_lost {
        notes.push("whoever asked may not decide it: put to the owners".to_owned());
    }
    let (assignee, fact) = match rules.assign {
        Assign::LeastLoaded => {
            let mut pool = seen;
            if is_lost || to.is_empty() {
                pool.members = owners(context)?;
            }
            pool.named.append(&mut pool.members);
            least_loaded(&pool.named, &rules.barred, context)?
        }
        Assign::Anyone if to.len() == 1 => (seen.named.into_iter().find(|name| may(&name)), None),
        Assign::Anyone => (None, None),
    };
    if let Some(name) = assignee.as_ref().filter(|_| fact.is_some()) {
        notes.push(format!("assigned to {name}, who has the fewest open"));
    }
    Ok(Plan::Assigned(Box::new(Assigned {
        assignee,
        reassigned_to,
        only_never: is_lost && !nobody_is_there,
        note: (!notes.is_empty()).then(|| notes.join("; ")),
        fact,
    })))
}

/// The active owners of the workspace.
fn owners(context: &DecisionContext<'_>) -> Result<BTreeSet<UserName>, Undecided> {
    let need = Need::Owners(context.workspace.clone());
    match (context.lookup)(&need) {
        Lookup::NotLoaded => Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(Fact::Owners(owners)) => Ok(owners),
        Lookup::Found(
            Fact::User(_)
            | Fact::Role(_)
            | Fact::Members(_)
            | Fact::Loads(_)
            | Fact::Policy(_)
            | Fact::Policies(_)
            | Fact::Request(_),
        )
        | Lookup::Missing => Ok(BTreeSet::new()),
    }
}

/// Looks everybody up; what is not known yet is asked for at once.
fn see(to: &[String], context: &DecisionContext<'_>) -> Result<Seen, Undecided> {
    let mut seen = Seen::default();
    let mut needs = Vec::new();
    for one in to.iter().take(TO_MAX) {
        let looked = match read(one) {
            Some(Recipient::User(name)) => active_user(context.workspace, &name, context.lookup)
                .map(|user| match user {
                    Some(_) => drop(seen.named.insert(name)),
                    None => seen.missing = Some(name.to_string()),
                }),
            Some(Recipient::Role(role)) => members(&role, context).map(|mut found| {
                if found.is_empty() {
                    seen.empty_roles.push(one.clone());
                }
                seen.members.append(&mut found);
            }),
            None => {
                seen.empty_roles.push(one.clone());
                Ok(())
            }
        };
        match looked {
            Ok(()) => {}
            Err(Undecided::NeedsMore(more)) => needs.extend(more),
            Err(stop @ Undecided::Refused(_)) => return Err(stop),
        }
    }
    if needs.is_empty() {
        Ok(seen)
    } else {
        Err(Undecided::NeedsMore(needs))
    }
}

/// The active members of a role.
pub(crate) fn members(
    role: &RoleName,
    context: &DecisionContext<'_>,
) -> Result<BTreeSet<UserName>, Undecided> {
    let need = Need::Role(context.workspace.clone(), role.clone());
    match (context.lookup)(&need) {
        Lookup::NotLoaded => Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(Fact::Role(members)) => Ok(members),
        Lookup::Found(
            Fact::User(_)
            | Fact::Owners(_)
            | Fact::Members(_)
            | Fact::Loads(_)
            | Fact::Policy(_)
            | Fact::Policies(_)
            | Fact::Request(_),
        )
        | Lookup::Missing => Ok(BTreeSet::new()),
    }
}

/// Everybody who may decide what is put to `to`: those, and whoever may decide any request. None:
/// somebody who is named is not there.
pub(crate) fn eligible(
    to: &[String],
    context: &DecisionContext<'_>,
) -> Result<Option<BTreeSet<UserName>>, Undecided> {
    at_once([see(to, context).map(drop), operators(context).map(drop)])?;
    let (mut seen, mut eligible) = (see(to, context)?, operators(context)?);
    eligible.append(&mut seen.named);
    eligible.append(&mut seen.members);
    Ok(seen.missing.is_none().then_some(eligible))
}

/// The active users whose roles let them decide any request.
fn operators(context: &DecisionContext<'_>) -> Result<BTreeSet<UserName>, Undecided> {
    let operates = |role: &Role| holdpoint_auth::may(*role, Right::Operate);
    let roles: Vec<RoleName> = Role::ALL
        .into_iter()
        .filter(operates)
        .filter_map(|role| role.as_str().parse().ok())
        .collect();
    at_once(roles.iter().map(|role| members(role, context).map(drop)))?;
    let mut all = BTreeSet::new();
    for role in &roles {
        all.append(&mut members(role, context)?);
    }
    Ok(all)
}

type Chosen = (Option<UserName>, Option<(Need, Fact)>);

/// The one with the fewest open requests; on a tie the first by name.
fn least_loaded(
    pool: &BTreeSet<UserName>,
    barred: &Barred,
    context: &DecisionContext<'_>,
) -> Result<Chosen, Undecided> {
    let need = Need::Loads(context.workspace.clone());
    let mut loads = match (context.lookup)(&need) {
        Lookup::NotLoaded => return Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(Fact::Loads(loads)) => loads,
        Lookup::Found(
            Fact::User(_)
            | Fact::Owners(_)
            | Fact::Members(_)
            | Fact::Role(_)
            | Fact::Policy(_)
            | Fact::Policies(_)
            | Fact::Request(_),
        )
        | Lookup::Missing => BTreeMap::new(),
    };
    let load = |name: &UserName| loads.get(name).copied().unwrap_or(0);
    let may = pool.iter().filter(|name| !barred.bars(name));
    let Some(chosen) = may.min_by_key(|name| load(name)).cloned() else {
        return Ok((None, None));
    };
    *loads.entry(chosen.clone()).or_insert(0) += 1;
    Ok((Some(chosen), Some((need, Fact::Loads(loads)))))
}

/// Whom a rung concerns, as far as they are there; nobody: the owners.
pub(crate) fn of_rung(
    to: &[String],
    context: &DecisionContext<'_>,
) -> Result<Vec<String>, Undecided> {
    Ok(match plan(to, &Rules::default(), context)? {
        Plan::Assigned(put) => put.reassigned_to.unwrap_or_else(|| to.to_vec()),
        Plan::Inactive(name) => {
            let gone = format!("@user.{name}");
            let left: Vec<_> = to.iter().filter(|one| **one != gone).cloned().collect();
            if left.is_empty() {
                left
            } else {
                return of_rung(&left, context);
            }
        }
    })
}

/// An audience in a sentence.
pub(crate) fn words(to: &[String]) -> String {
    if to.is_empty() {
        "the owners".to_owned()
    } else {
        to.join(", ")
    }
}

/// Everything that is wrong with an audience that somebody writes: whoever is asked by name is there
/// and active.
pub(crate) fn faults(
    to: &[String],
    pointer: &str,
    workspace: &Workspace,
    lookup: LookupFn<'_>,
) -> Result<Vec<FieldError>, Undecided> {
    let (mut errors, mut needs) = (Vec::new(), Vec::new());
    for (place, one) in to.iter().enumerate().take(TO_MAX) {
        let pointer = format!("{pointer}/{place}");
        match read(one) {
            Some(Recipient::User(name)) => match active_user(workspace, &name, lookup) {
                Ok(Some(_)) => {}
                Ok(None) => errors.push(FieldError::at(&pointer, not_active(name.as_str()))),
                Err(Undecided::NeedsMore(more)) => needs.extend(more),
                Err(stop @ Undecided::Refused(_)) => return Err(stop),
            },
            Some(Recipient::Role(_)) => {}
            None => errors.push(FieldError::at(
                &pointer,
                "write `@user.<name>` or `@role.<name>`",
            )),
        }
    }
    if needs.is_empty() {
        Ok(errors)
    } else {
        Err(Undecided::NeedsMore(needs))
    }
}

/// S0-R1, literally.
pub(crate) fn not_active(name: &str) -> String {
    format!("User {name} not found or inactive in workspace")
}
