//! The sweep found a request of a disabled user, or of a role without an active member. The request goes to its
//! other recipients, or to the owners.

use holdpoint_contracts::hold::HandoffEventKind;
use holdpoint_contracts::notification::RequestEventKind;
use holdpoint_holds::Recipient;

use crate::domain::decision::{Outcome, Undecided};
use crate::domain::effect::Reply;
use crate::domain::lookup::DecisionContext;
use crate::domain::model::request::{BY_SERVICE, Request};
use crate::domain::rules::audience;
use crate::domain::transition::RequestTransition;

pub(crate) fn reassign_orphaned(
    request: Option<&Request>,
    recipient: &Recipient,
    context: &DecisionContext<'_>,
) -> Result<Outcome, Undecided> {
    let unchanged = || Ok(Outcome::Unchanged(Reply::EventRecorded));
    let Some(request) = request.filter(|request| request.is_open()) else {
        return unchanged();
    };
    let text = recipient.to_string();
    let assignee = request.progress.assignee.as_ref();
    let is_addressed = request.deciders().contains(&text);
    let (is_assignee, is_active) = match recipient {
        Recipient::User(name) => {
            let is_active = context.facts.active_user(name)?.is_some();
            (assignee == Some(name), is_active)
        }
        // An assignee keeps the request even if the role has no active member.
        Recipient::Role(_) if assignee.is_some() => return unchanged(),
        Recipient::Role(role) => (false, !context.facts.members(role)?.is_empty()),
    };
    if is_active || !(is_assignee || is_addressed) {
        return unchanged();
    }
    let without =
        |all: &[String]| -> Vec<_> { all.iter().filter(|one| **one != text).cloned().collect() };
    let to = audience::active_recipients(&without(request.addressed_to()), context)?;
    let mut transition = RequestTransition::on(request, context.now);
    let additional = without(&request.progress.additional_deciders);
    transition.request.progress.additional_deciders = additional;
    if is_assignee {
        let progress = &mut transition.request.progress;
        progress.reassign(to.clone(), None);
        progress.ladder.restart_if_running(context.now);
    } else {
        transition.request.progress.reassigned_to = Some(to.clone());
    }
    let why = match recipient {
        Recipient::User(name) => format!("{name} was disabled"),
        Recipient::Role(role) => format!("no active user in {}", Recipient::role_text(role)),
    };
    let note = format!("{why}; reassigned to {}", audience::describe(&to));
    // An assignee keeps the request, so that only its other recipients change.
    let action = if is_assignee {
        "reassigned"
    } else {
        "passed_on"
    };
    transition.add_history(action, BY_SERVICE, Some(note));
    if is_assignee {
        transition.add_handoff_event(HandoffEventKind::Reassigned, BY_SERVICE);
    }
    if is_assignee || to.is_empty() {
        transition.notify(RequestEventKind::Assigned, None, to);
    }
    Ok(transition.finish(|_| Reply::EventRecorded))
}
