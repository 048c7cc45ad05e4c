//! `handoff.set_holds` with the state `erased`: the contact of a run is erased.

use holdpoint_contracts::hold::SetHoldReply;
use holdpoint_contracts::notification::RequestEventKind;
use holdpoint_ids::ContactId;

use crate::domain::decision::Outcome;
use crate::domain::effect::{Effect, Reply};
use crate::domain::lookup::DecisionContext;
use crate::domain::model::request::{BY_EXECUTOR, Owner, Phase, Request};
use crate::domain::rules::erased_request::ERASED;
use crate::domain::transition::RequestTransition;

/// Empties a request, and has its notifications emptied. A hold of a run that is unknown here becomes a tombstone, so
/// that no late message opens it. An unknown task was never created.
pub(crate) fn erase_hold(
    request: Option<&Request>,
    rev: u64,
    contact: &ContactId,
    context: &DecisionContext<'_>,
) -> Outcome {
    let reply = |reply| Reply::DesiredState(reply);
    let id = context.id;
    let mut transition = match request {
        Some(request) if request.erased_at.is_some() || rev <= request.rev => {
            return Outcome::Unchanged(reply(SetHoldReply::Stale));
        }
        Some(request) => RequestTransition::on(request, context.now),
        None if id.is_standalone() => return Outcome::Unchanged(reply(SetHoldReply::Set)),
        None => {
            let workspace = context.facts.workspace;
            let owner = Some(Owner::Executor);
            let mut tombstone = Request::new(workspace, id, owner, context.now);
            tombstone.phase = Phase::Withdrawn {
                reason: ERASED.to_owned(),
                by: None,
                at: context.now,
            };
            RequestTransition::new(tombstone, context.now)
        }
    };
    transition.request.erase(context.now);
    transition.request.rev = rev;
    if transition.request.spec.is_some() {
        transition.add_history(ERASED, BY_EXECUTOR, None);
    }
    transition.notify(RequestEventKind::Withdrawn, Some(BY_EXECUTOR), Vec::new());
    transition.effects.push(Effect::Erased {
        workspace: context.facts.workspace.clone(),
        id,
        contact: contact.clone(),
    });
    transition.finish(|_| reply(SetHoldReply::Set))
}
