//! Cells of the hold table (`holdpoint_handoff::domain::merge_desired_state`) that are flipped on purpose.

use chrono::TimeDelta;
use holdpoint_contracts::hold::{HoldOutcome, HoldState, SetHoldReply};
use holdpoint_decision::Decided;
use holdpoint_handoff::Handoff;
use holdpoint_handoff::domain::{
    Aggregate, Effect, Input, OwnerState, Phase, Refusal, Reply, RequestInput, merge_desired_state,
};
use holdpoint_ids::HoldId;
use holdpoint_notification::Notification;
use holdpoint_notification::domain as notification;

use crate::service::{Fault, Rewrite};

/// What is done to the decisions of the handoff service, if anything.
pub(crate) fn rewrite(fault: Fault) -> Option<Rewrite<Handoff>> {
    match fault {
        Fault::DecisionTakenOver => Some(decision_taken_over),
        Fault::TimeOutStays => Some(time_out_stays),
        Fault::TimeOutOfOldDeadline => Some(time_out_of_old_deadline),
        Fault::None
        | Fault::AnswerBeforeCommit
        | Fault::PublishBeforeCommit
        | Fault::HandOutOnce
        | Fault::DesiredStateOnce
        | Fault::NeverAsk
        | Fault::ForgetBegun
        | Fault::LeaseForEver
        | Fault::NothingIsSettled => None,
    }
}

/// One hold of a run in so many is refused, whatever is wanted of it.
const REFUSED: u64 = 25;

/// The handoff service refuses some holds of runs, always the same ones.
pub(crate) fn refuses(input: &Input) -> Option<Refusal> {
    let Input::Request {
        id,
        input: RequestInput::SetDesired { .. },
        ..
    } = input
    else {
        return None;
    };
    is_refused(*id).then(|| Refusal::TimerOfRun(*id))
}

/// Whether it is one of those.
pub(crate) fn is_refused(id: HoldId) -> bool {
    let text = id.run.to_string();
    let sum: u64 = text.bytes().map(u64::from).sum::<u64>() + u64::from(id.number);
    // The scripted owner's holds are the first of their runs; it does not heed refusals.
    id.number > 1 && sum.is_multiple_of(REFUSED)
}

fn decision_taken_over(
    known: Option<&Aggregate>,
    input: &Input,
    decision: &mut Decided<holdpoint_handoff::domain::HandoffDomain>,
) {
    let Some(Aggregate::Request(before)) = known else {
        return;
    };
    let Input::Request { input, .. } = input else {
        return;
    };
    let RequestInput::SetDesired { state, .. } = input else {
        return;
    };
    let (Phase::Decided { .. }, HoldState::Open { deadline, .. }) = (&before.phase, state) else {
        return;
    };
    if let Aggregate::Request(after) = &mut decision.state {
        after.phase = Phase::Open {
            deadline: *deadline,
        };
        after.effect = None;
    }
    decision
        .effects
        .retain(|effect| !matches!(effect, Effect::Close { .. }));
    decision.reply = Reply::DesiredState(SetHoldReply::Set);
}

fn time_out_stays(
    known: Option<&Aggregate>,
    input: &Input,
    decision: &mut Decided<holdpoint_handoff::domain::HandoffDomain>,
) {
    let Some(Aggregate::Request(before)) = known else {
        return;
    };
    let Input::Request { input, .. } = input else {
        return;
    };
    let RequestInput::SetDesired { state, .. } = input else {
        return;
    };
    let Phase::TimedOut { at } = &before.phase else {
        return;
    };
    let HoldState::Frozen {
        since,
        remaining_ms,
        ..
    } = state
    else {
        return;
    };
    // The cell as it is, so that this stays one cell and no other.
    let cell = merge_desired_state(OwnerState::TimedOut(*at), state);
    assert_eq!(
        *since < *at || *remaining_ms != Some(0),
        cell == holdpoint_handoff::domain::MergeAction::Refreeze
    );
    if let Aggregate::Request(after) = &mut decision.state {
        after.phase = before.phase.clone();
        after.effect = before.effect;
    }
    decision.reply = Reply::DesiredState(SetHoldReply::TimedOut);
}

fn time_out_of_old_deadline(
    _: Option<&Aggregate>,
    _: &Input,
    decision: &mut Decided<holdpoint_handoff::domain::HandoffDomain>,
) {
    for effect in &mut decision.effects {
        if let Effect::Close { closed, .. } = effect
            && closed.outcome == HoldOutcome::Timeout
        {
            closed.at += TimeDelta::days(400);
        }
    }
}

/// The change to the decisions of the notification service, if there is one.
pub(crate) fn rewrite_notification(fault: Fault) -> Option<Rewrite<Notification>> {
    (fault == Fault::NothingIsSettled).then_some(nothing_is_settled as Rewrite<Notification>)
}

fn nothing_is_settled(
    _: Option<&notification::Aggregate>,
    _: &notification::Input,
    decision: &mut Decided<notification::NotificationDomain>,
) {
    let is_kept = |effect: &notification::Effect| {
        !matches!(effect, notification::Effect::ReadRequestEntries { .. })
    };
    decision.effects.retain(is_kept);
}
