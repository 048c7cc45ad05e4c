//! What other services say of a request: wishes, alarms, and the executor's word on a close.

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::TimerAnswer;
use holdpoint_contracts::handoff::Effect as Word;
use holdpoint_contracts::hold::{ClosedAnswer, HoldSpec, OnTimeout, Want, WishAnswer};
use holdpoint_contracts::run::HoldKind;

use super::meet::{Cell, OwnerState, meet};
use super::refusal::Refusal;
use super::request::{Alarm, Owner, Phase, Request};
use super::turn::Turn;
use super::{Answer, Scene, Step, Stop};

/// A wish meets what is there.
pub(crate) fn wish(
    request: Option<&Request>,
    rev: u64,
    want: &Want,
    scene: &Scene<'_>,
) -> Result<Step, Stop> {
    if scene.id.is_standalone() {
        return Err(Refusal::StandsAlone(scene.id).into());
    }
    if spec_of(want).is_some_and(|spec| spec.kind == HoldKind::Timer) {
        return Err(Refusal::TimerOfRun(scene.id).into());
    }
    if let Some(request) = request.filter(|request| rev <= request.rev) {
        return Ok(Step::Same(Answer::Wish(match request.owner_state() {
            OwnerState::Decided => WishAnswer::Decided,
            OwnerState::TimedOut(_) => WishAnswer::TimedOut,
            OwnerState::Unknown | OwnerState::Standing | OwnerState::Gone => WishAnswer::Stale,
        })));
    }
    let owner = request.map_or(OwnerState::Unknown, Request::owner_state);
    let cell = meet(owner, want);
    let mut turn = request.map_or_else(|| Turn::of(fresh(scene)), Turn::on);
    turn.request.rev = rev;
    let answer = match cell {
        Cell::Create | Cell::TakeOver | Cell::Withdraw | Cell::FreezeAgain | Cell::OpenAgain => {
            take_over(&mut turn.request, want, scene.now);
            WishAnswer::Set
        }
        Cell::DecisionStaysAndIsToldAgain | Cell::DecisionTakesEffectOnResume => {
            turn.tell_again();
            WishAnswer::Decided
        }
        Cell::DecisionStaysRunEnded => {
            // Had the executor said that it was applied, that is what happened.
            if turn.request.effect != Some(Word::Applied) {
                turn.request.effect = Some(Word::RunEnded);
            }
            WishAnswer::Decided
        }
        Cell::TimeOutStaysAndIsToldAgain => {
            turn.tell_again();
            WishAnswer::TimedOut
        }
    };
    Ok(turn.end(|_| Answer::Wish(answer)))
}

const fn spec_of(want: &Want) -> Option<&HoldSpec> {
    match want {
        Want::Open { spec, .. } | Want::Frozen { spec, .. } => Some(spec),
        Want::Gone { .. } => None,
    }
}

/// What a wish for an unknown id begins with.
fn fresh(scene: &Scene<'_>) -> Request {
    Request {
        workspace: scene.workspace.clone(),
        id: scene.id,
        version: 1,
        owner: Some(Owner::Executor),
        rev: 0,
        spec: None,
        phase: Phase::Open { deadline: None },
        escalated_at: None,
        alarm: Alarm::default(),
        closed_rev: None,
        effect: None,
        late: Vec::new(),
        opened_by: None,
        created_at: scene.now,
    }
}

fn take_over(request: &mut Request, want: &Want, now: DateTime<Utc>) {
    if let Some(spec) = spec_of(want) {
        request.spec = Some(spec.clone());
        request.effect = None;
    }
    request.phase = match want {
        Want::Open { deadline, .. } => Phase::Open {
            deadline: *deadline,
        },
        Want::Frozen {
            since,
            remaining_ms,
            ..
        } => Phase::Frozen {
            since: *since,
            remaining_ms: *remaining_ms,
        },
        Want::Gone { reason } => Phase::Gone {
            reason: reason.clone(),
            at: now,
        },
    };
}

/// The alarm has come due: time is up, unless it was moved, stopped or overtaken.
pub(crate) fn timer_fired(
    request: Option<&Request>,
    rev: u64,
    due: DateTime<Utc>,
    scene: &Scene<'_>,
) -> Step {
    let stale = || Step::Same(Answer::Timer(TimerAnswer::Stale));
    let Some(request) = request else {
        return stale();
    };
    let is_current = request.alarm.rev == rev && request.alarm.due.is_some();
    match request.phase {
        Phase::Open { .. } if is_current => {}
        Phase::Open { .. }
        | Phase::Frozen { .. }
        | Phase::Decided { .. }
        | Phase::TimedOut { .. }
        | Phase::Gone { .. } => return stale(),
    }
    // Due times are stamped by the scheduler's clock; ours may be a little behind.
    let at = scene.now.max(due);
    let mut turn = Turn::on(request);
    turn.alarm_fired();
    let on_timeout = request.spec.as_ref().map(|spec| spec.on_timeout);
    match on_timeout {
        Some(OnTimeout::Escalate) if request.kind() != Some(HoldKind::Timer) => {
            turn.request.escalated_at = Some(at);
        }
        Some(
            OnTimeout::Escalate
            | OnTimeout::Fail
            | OnTimeout::Skip
            | OnTimeout::Default
            | OnTimeout::Continue,
        )
        | None => {
            turn.request.phase = Phase::TimedOut { at };
            turn.close();
        }
    }
    turn.end(|_| Answer::Timer(TimerAnswer::Applied))
}

/// The executor's word on a close. Its word on an older one says nothing: a newer one is on its way.
pub(crate) fn told(request: Option<&Request>, rev: u64, answer: ClosedAnswer) -> Step {
    let effect = match answer {
        ClosedAnswer::Applied => Word::Applied,
        ClosedAnswer::OnResume => Word::OnResume,
        ClosedAnswer::RunEnded => Word::RunEnded,
    };
    match request {
        Some(request)
            if request.closed_rev == Some(rev)
                && request.end().is_some()
                && request.effect != Some(effect) =>
        {
            let mut turn = Turn::on(request);
            turn.request.effect = Some(effect);
            turn.end(|_| Answer::Noted)
        }
        Some(_) | None => Step::Same(Answer::Noted),
    }
}
