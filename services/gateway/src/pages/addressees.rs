//! The users that a request is addressed to, as far as it decides which forms a page shows. The
//! service that owns the request checks every decision again.

use holdpoint_auth::Right;
use holdpoint_contracts::handoff::RequestView;
use holdpoint_holds::{InvalidRecipient, Recipient};

use super::session::SignedInUser;

/// A request is addressed to a user by name, by role or by delegation. A request without recipients
/// is addressed to the owners. An assignee has it alone, except where several people must agree.
pub(super) fn is_addressed_to(user: &SignedInUser, request: &RequestView) -> bool {
    let name = user.name();
    let roles = &user.caller.claims.roles;
    let names_user = |to: &String| match to.parse() {
        Ok(Recipient::User(user)) => user.as_str() == name,
        Ok(Recipient::Role(role)) => roles.contains(&role),
        Err(InvalidRecipient) => false,
    };
    if request.also.iter().any(names_user) {
        return true;
    }
    if let Some(assignee) = request.assignee.as_deref() {
        let is_assignee = Recipient::bare_user_name(assignee) == name;
        if is_assignee || request.votes.is_none() {
            return is_assignee;
        }
    }
    if request.to.is_empty() {
        return user.may(Right::Own);
    }
    request.to.iter().any(names_user)
}

/// The user may see the forms of a request: it is addressed to them, or they are an operator.
pub(super) fn may_act_on(user: &SignedInUser, request: &RequestView) -> bool {
    is_addressed_to(user, request) || user.may(Right::Operate)
}

/// The user has approved a request that needs more approvals.
pub(super) fn has_voted(user: &SignedInUser, request: &RequestView) -> bool {
    let mut history = request.history.iter();
    request.votes.is_some()
        && history.any(|entry| entry.action == "approved" && entry.by == user.name())
}
