//! Which users recipients resolve to, and who of them gets the request (S0-R1).

use std::collections::BTreeSet;

use holdpoint_auth::{Right, Role};
use holdpoint_contracts::hold::Assign;
use holdpoint_contracts::problem::FieldError;
use holdpoint_holds::limits::RECIPIENTS_MAX;
use holdpoint_holds::{Recipient, inactive_text};
use holdpoint_ids::{RoleName, UserName};

use crate::domain::decision::{Fact, Need, Undecided};
use crate::domain::lookup::{DecisionContext, Facts, load_together};
use crate::domain::model::request::ExcludedDeciders;

/// How an audience is assigned.
#[derive(Debug, Default)]
pub(crate) struct AssignmentRules {
    pub(crate) assign: Assign,
    /// Users who may not decide the request, so that it is not assigned to them.
    pub(crate) excluded: ExcludedDeciders,
}

/// The first state of a request that is addressed to people.
#[derive(Debug)]
pub(crate) enum Assignment {
    /// This recipient does not exist or is disabled.
    Inactive(String),
    Assigned(Box<Assigned>),
}

/// Who gets a request.
#[derive(Debug)]
pub(crate) struct Assigned {
    pub(crate) assignee: Option<UserName>,
    /// Recipients instead of the named ones.
    pub(crate) reassigned_to: Option<Vec<String>>,
    /// All active recipients are excluded from deciding.
    pub(crate) all_excluded: bool,
    /// Text for the request's history.
    pub(crate) note: Option<String>,
    /// Loads for later decisions of the same batch.
    pub(crate) fact: Option<(Need, Fact)>,
}

/// The users that recipients resolve to.
#[derive(Default)]
struct Audience {
    named: BTreeSet<UserName>,
    /// A named user who does not exist or is disabled.
    inactive: Option<String>,
    /// Active members of the roles.
    members: BTreeSet<UserName>,
    empty_roles: Vec<String>,
}

/// Assigns a request to its audience.
pub(crate) fn assign(
    to: &[String],
    rules: &AssignmentRules,
    context: &DecisionContext<'_>,
) -> Result<Assignment, Undecided> {
    let audience = resolve(to, context.facts)?;
    if let Some(name) = audience.inactive {
        return Ok(Assignment::Inactive(name));
    }
    let may_decide = |name: &&UserName| !rules.excluded.contains(name);
    let is_empty = audience.named.is_empty() && audience.members.is_empty();
    let mut all = audience.named.iter().chain(&audience.members);
    let is_lost = !to.is_empty() && !all.any(|name| may_decide(&name));
    let reassigned_to = is_lost.then(Vec::new);
    let mut notes = Vec::new();
    if is_lost && is_empty {
        let roles = audience.empty_roles.join(", ");
        notes.push(format!(
            "no active user in {roles}; addressed to the owners"
        ));
    } else if is_lost {
        notes.push("the requester may not decide it; addressed to the owners".to_owned());
    }
    let (assignee, fact) = match rules.assign {
        Assign::LeastLoaded => {
            let mut pool = audience.named;
            if is_lost || to.is_empty() {
                pool.append(&mut context.facts.owners()?);
            } else {
                pool.extend(audience.members);
            }
            assign_least_loaded(&pool, &rules.excluded, context.facts)?
        }
        Assign::Anyone if to.len() == 1 => {
            let mut named = audience.named.into_iter();
            (named.find(|name| may_decide(&name)), None)
        }
        Assign::Anyone => (None, None),
    };
    if let Some(name) = assignee.as_ref().filter(|_| fact.is_some()) {
        notes.push(format!(
            "assigned to {name}, who has the fewest open requests"
        ));
    }
    Ok(Assignment::Assigned(Box::new(Assigned {
        assignee,
        reassigned_to,
        all_excluded: is_lost && !is_empty,
        note: (!notes.is_empty()).then(|| notes.join("; ")),
        fact,
    })))
}

/// Resolves recipients. All users and roles that are not loaded yet are asked for in one round.
fn resolve(to: &[String], facts: Facts<'_>) -> Result<Audience, Undecided> {
    let mut audience = Audience::default();
    let mut add = |text: &String| -> Result<(), Undecided> {
        match text.parse() {
            Ok(Recipient::User(name)) => match facts.active_user(&name)? {
                Some(_) => drop(audience.named.insert(name)),
                None => audience.inactive = Some(name.to_string()),
            },
            Ok(Recipient::Role(role)) => {
                let mut members = facts.members(&role)?;
                if members.is_empty() {
                    audience.empty_roles.push(text.clone());
                }
                audience.members.append(&mut members);
            }
            Err(_) => audience.empty_roles.push(text.clone()),
        }
        Ok(())
    };
    let results: Vec<_> = to.iter().take(RECIPIENTS_MAX).map(&mut add).collect();
    load_together(results)?;
    Ok(audience)
}

/// All who may decide a request: its audience, and users who may decide any request. None if a named
/// recipient is inactive.
pub(crate) fn eligible_deciders(
    to: &[String],
    context: &DecisionContext<'_>,
) -> Result<Option<BTreeSet<UserName>>, Undecided> {
    let facts = context.facts;
    load_together([resolve(to, facts).map(drop), operators(facts).map(drop)])?;
    let (mut audience, mut eligible) = (resolve(to, facts)?, operators(facts)?);
    eligible.append(&mut audience.named);
    eligible.append(&mut audience.members);
    Ok(audience.inactive.is_none().then_some(eligible))
}

/// The active users whose roles let them decide any request.
fn operators(facts: Facts<'_>) -> Result<BTreeSet<UserName>, Undecided> {
    let operates = |role: &Role| holdpoint_auth::may(*role, Right::Operate);
    let roles: Vec<RoleName> = Role::ALL
        .iter()
        .copied()
        .filter(operates)
        .filter_map(|role| role.as_str().parse().ok())
        .collect();
    load_together(roles.iter().map(|role| facts.members(role).map(drop)))?;
    let mut all = BTreeSet::new();
    for role in &roles {
        all.append(&mut facts.members(role)?);
    }
    Ok(all)
}

type LeastLoaded = (Option<UserName>, Option<(Need, Fact)>);

/// The user with the fewest open requests; on a tie the first by name.
fn assign_least_loaded(
    pool: &BTreeSet<UserName>,
    excluded: &ExcludedDeciders,
    facts: Facts<'_>,
) -> Result<LeastLoaded, Undecided> {
    let mut loads = facts.loads()?;
    let load = |name: &UserName| loads.get(name).copied().unwrap_or(0);
    let candidates = pool.iter().filter(|name| !excluded.contains(name));
    let Some(chosen) = candidates.min_by_key(|name| load(name)).cloned() else {
        return Ok((None, None));
    };
    *loads.entry(chosen.clone()).or_insert(0) += 1;
    let need = Need::Loads(facts.workspace.clone());
    Ok((Some(chosen), Some((need, Fact::Loads(loads)))))
}

/// The recipients that are active; empty, which means the owners, if none is.
pub(crate) fn active_recipients(
    to: &[String],
    context: &DecisionContext<'_>,
) -> Result<Vec<String>, Undecided> {
    match assign(to, &AssignmentRules::default(), context)? {
        Assignment::Assigned(assigned) => Ok(assigned.reassigned_to.unwrap_or_else(|| to.to_vec())),
        Assignment::Inactive(name) => {
            let inactive = Recipient::user_text(&name);
            let rest: Vec<_> = to.iter().filter(|one| **one != inactive).cloned().collect();
            if rest.is_empty() {
                return Ok(rest);
            }
            active_recipients(&rest, context)
        }
    }
}

/// Recipients for a sentence.
pub(crate) fn describe(to: &[String]) -> String {
    if to.is_empty() {
        "the owners".to_owned()
    } else {
        to.join(", ")
    }
}

/// The named users among recipients who do not exist or are disabled. Whether the texts are recipients at
/// all is checked with the draft.
pub(crate) fn find_inactive_users(
    to: &[String],
    pointer: &str,
    facts: Facts<'_>,
) -> Result<Vec<FieldError>, Undecided> {
    let mut errors = Vec::new();
    let mut check = |(place, text): (usize, &String)| -> Result<(), Undecided> {
        if let Ok(Recipient::User(name)) = text.parse()
            && facts.active_user(&name)?.is_none()
        {
            let pointer = format!("{pointer}/{place}");
            errors.push(FieldError::at(&pointer, inactive_text(&name)));
        }
        Ok(())
    };
    let to = to.iter().enumerate().take(RECIPIENTS_MAX);
    let results: Vec<_> = to.map(&mut check).collect();
    load_together(results)?;
    Ok(errors)
}
