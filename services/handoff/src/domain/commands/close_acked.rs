//! Acknowledgements of the executor for desired states of the handoff service.

use holdpoint_contracts::handoff::Effect as DecisionEffect;
use holdpoint_contracts::hold::CloseReply;
use holdpoint_contracts::notification::RequestEventKind;

use crate::domain::decision::Outcome;
use crate::domain::effect::Reply;
use crate::domain::lookup::DecisionContext;
use crate::domain::model::request::{BY_EXECUTOR, Phase, Request};
use crate::domain::transition::RequestTransition;

/// The executor acknowledged handoff events up to a version.
pub(crate) fn acknowledge_handoff_events(
    request: Option<&Request>,
    rev: u64,
    context: &DecisionContext<'_>,
) -> Outcome {
    let unchanged = Outcome::Unchanged(Reply::EventRecorded);
    let Some(request) = request else {
        return unchanged;
    };
    let mut transition = RequestTransition::invisible(request, context.now);
    if transition.request.progress.pending_events.acknowledge(rev) {
        transition.finish(|_| Reply::EventRecorded)
    } else {
        unchanged
    }
}

/// The executor acknowledged a close and reports its effect. A reply to an older close changes nothing, because
/// a newer close is on its way. A take-over of a run that had ended before is withdrawn.
pub(crate) fn acknowledge_close(
    request: Option<&Request>,
    rev: u64,
    reply: CloseReply,
    context: &DecisionContext<'_>,
) -> Outcome {
    let effect = match reply {
        CloseReply::Applied => DecisionEffect::Applied,
        CloseReply::OnResume => DecisionEffect::OnResume,
        CloseReply::RunEnded => DecisionEffect::RunEnded,
    };
    match request {
        Some(request)
            if request.closed_rev == Some(rev)
                && (request.end().is_some() || request.take_over().is_some())
                && request.effect != Some(effect) =>
        {
            if effect == DecisionEffect::RunEnded && request.is_open() {
                return withdraw_ended(request, context);
            }
            let mut transition = RequestTransition::invisible(request, context.now);
            transition.request.effect = Some(effect);
            transition.request.progress.pending_events.acknowledge(rev);
            transition.finish(|_| Reply::EventRecorded)
        }
        Some(_) | None => Outcome::Unchanged(Reply::EventRecorded),
    }
}

/// Withdraws a taken-over request, because the run had ended before.
fn withdraw_ended(request: &Request, context: &DecisionContext<'_>) -> Outcome {
    let to = request.deciders();
    let by = BY_EXECUTOR;
    let reason = "the run had ended before it was taken over".to_owned();
    let mut transition = RequestTransition::on(request, context.now);
    transition.request.effect = Some(DecisionEffect::RunEnded);
    transition.add_history("withdrawn", by, Some(reason.clone()));
    transition.notify(RequestEventKind::Withdrawn, Some(by), to);
    transition.request.phase = Phase::Withdrawn {
        reason,
        by: None,
        at: context.now,
    };
    transition.finish(|_| Reply::EventRecorded)
}
