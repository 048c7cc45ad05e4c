//! Cells of the hold table (`holdpoint_handoff::domain::meet`) that are flipped on purpose.

use chrono::TimeDelta;
use holdpoint_contracts::hold::{HoldOutcome, Want, WishAnswer};
use holdpoint_handoff::Handoff;
use holdpoint_handoff::domain::{
    Aggregate, Answer, Effect, Input, OwnerState, Phase, Refusal, RequestInput, meet,
};
use holdpoint_ids::HoldId;
use holdpoint_kernel::Decision;

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
        | Fault::WishOnce
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
        input: RequestInput::Wish { .. },
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

fn decision_taken_over(known: Option<&Aggregate>, input: &Input, decision: &mut Decision<Handoff>) {
    let Some(Aggregate::Request(before)) = known else {
        return;
    };
    let Input::Request { input, .. } = input else {
        return;
    };
    let RequestInput::Wish { want, .. } = input else {
        return;
    };
    let (Phase::Decided { .. }, Want::Open { deadline, .. }) = (&before.phase, want) else {
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
    decision.answer = Answer::Wish(WishAnswer::Set);
}

fn time_out_stays(known: Option<&Aggregate>, input: &Input, decision: &mut Decision<Handoff>) {
    let Some(Aggregate::Request(before)) = known else {
        return;
    };
    let Input::Request { input, .. } = input else {
        return;
    };
    let RequestInput::Wish { want, .. } = input else {
        return;
    };
    let Phase::TimedOut { at } = &before.phase else {
        return;
    };
    let Want::Frozen {
        since,
        remaining_ms,
        ..
    } = want
    else {
        return;
    };
    // The cell as it is, so that this stays one cell and no other.
    let cell = meet(OwnerState::TimedOut(*at), want);
    assert_eq!(
        *since < *at || *remaining_ms != Some(0),
        cell == holdpoint_handoff::domain::Cell::FreezeAgain
    );
    if let Aggregate::Request(after) = &mut decision.state {
        after.phase = before.phase.clone();
        after.effect = before.effect;
    }
    decision.answer = Answer::Wish(WishAnswer::TimedOut);
}

fn time_out_of_old_deadline(_: Option<&Aggregate>, _: &Input, decision: &mut Decision<Handoff>) {
    for effect in &mut decision.effects {
        if let Effect::Close { closed, .. } = effect
            && closed.outcome == HoldOutcome::Timeout
        {
            closed.at += TimeDelta::days(400);
        }
    }
}
