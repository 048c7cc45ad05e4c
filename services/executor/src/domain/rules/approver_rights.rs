//! Whether the people who approved a call may still decide it (S2-R4). Every doubt means that they may not.
//!
//! The handoff service checks a right when a person decides, and it owns the recipients of a request. The closure of the
//! request says by which of them each voter was named, so that the same right can be checked again on fresh users.

use std::sync::Arc;

use holdpoint_auth::{Right, Role, may};
use holdpoint_contracts::hold::ApprovalVote;
use holdpoint_holds::Recipient;
use holdpoint_ids::RoleName;

use crate::domain::decision::Lookup;
use crate::domain::model::run::{ApprovalDecision, Run};
use crate::domain::need::{DIRECTORY_AGE_MAX, Fact, KnownUser, Need};
use crate::domain::transition::RunTransition;

/// A vote that does not count any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LostVote {
    pub(crate) by: String,
    pub(crate) reason: &'static str,
}

const NOT_ACTIVE: &str = "is not known as an active user";
const NOT_ALLOWED: &str = "may not decide it any more";

/// The first vote of an approval that does not count any more.
pub(crate) fn find_lost_vote(
    transition: &RunTransition<'_>,
    decision: &ApprovalDecision,
) -> Option<LostVote> {
    let lost = |by: &str, reason| LostVote {
        by: by.to_owned(),
        reason,
    };
    // A decision that is older than its votes says only who decided.
    if decision.votes.is_empty() {
        let by = decision.by.as_str();
        return active_user(transition, by)
            .is_none()
            .then(|| lost(by, NOT_ACTIVE));
    }
    decision.votes.iter().find_map(|vote| {
        let reason = match active_user(transition, &vote.by) {
            None => NOT_ACTIVE,
            Some(user) if may_decide(&user, vote) => return None,
            Some(_) => NOT_ALLOWED,
        };
        Some(lost(&vote.by, reason))
    })
}

/// What loads the users of [`find_lost_vote`].
pub(crate) fn voter_needs(run: &Run, decision: &ApprovalDecision) -> Vec<Need> {
    let voters = decision.votes.iter().map(|vote| vote.by.as_str());
    // The voters include the person who decided.
    let by = decision.votes.is_empty().then_some(decision.by.as_str());
    let voters = voters.chain(by);
    voters.filter_map(|user| user_need(run, user)).collect()
}

/// Whether the users are those of this moment: the handoff service has confirmed them a short time ago.
pub(crate) fn knows_users(transition: &RunTransition<'_>) -> bool {
    match transition.lookup(&Need::DirectoryAge) {
        Lookup::Found(Fact::DirectoryAge(age)) => age <= DIRECTORY_AGE_MAX,
        Lookup::Found(_) | Lookup::Missing | Lookup::NotLoaded => false,
    }
}

fn user_need(run: &Run, user: &str) -> Option<Need> {
    Some(Need::User(run.workspace.clone(), user.parse().ok()?))
}

fn active_user(transition: &RunTransition<'_>, user: &str) -> Option<Arc<KnownUser>> {
    match transition.lookup(&user_need(&transition.run, user)?) {
        Lookup::Found(Fact::User(user)) => Some(user).filter(|user| user.is_active),
        Lookup::Found(_) | Lookup::Missing | Lookup::NotLoaded => None,
    }
}

/// The rule of the handoff service: a user with the right to decide is a recipient, or may decide any request.
fn may_decide(user: &KnownUser, vote: &ApprovalVote) -> bool {
    let roles = user.roles.iter().map(RoleName::as_str);
    let roles: Vec<_> = roles.filter_map(Role::named).collect();
    let has = |right| roles.iter().any(|role| may(*role, right));
    let names_user = |to: &String| match to.parse() {
        Ok(Recipient::User(name)) => name.as_str() == vote.by,
        Ok(Recipient::Role(role)) => user.roles.contains(&role),
        Err(_) => false,
    };
    has(Right::Decide) && (has(Right::Operate) || vote.addressed_by.iter().any(names_user))
}
