//! What other services say of a request: wishes, alarms, and the executor's word on a close.

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::TimerAnswer;
use holdpoint_contracts::handoff::Effect as Word;
use holdpoint_contracts::hold::{ClosedAnswer, HoldSpec, OnTimeout, Want, WishAnswer};
use holdpoint_contracts::notification::FactKind;
use holdpoint_contracts::run::HoldKind;

use super::asked::cleaned;
use super::ladder;
use super::meet::{Cell, OwnerState, meet};
use super::refusal::Refusal;
use super::request::{BY_TIME, Owner, Phase, Request};
use super::settled;
use super::standalone::begin;
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
    let cell = unless_a_rung_ended_it(request, want, meet(owner, want));
    let fresh = || Turn::of(Request::fresh(scene, Some(Owner::Executor)));
    let mut turn = request.map_or_else(fresh, Turn::on);
    turn.request.rev = rev;
    let answer = match cell {
        Cell::Create | Cell::TakeOver | Cell::Withdraw | Cell::FreezeAgain | Cell::OpenAgain => {
            take_over(&mut turn, want, scene)?
        }
        Cell::DecisionStaysAndIsToldAgain | Cell::DecisionTakesEffectOnResume => {
            turn.tell();
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
            turn.tell();
            WishAnswer::TimedOut
        }
    };
    Ok(turn.end(|_| Answer::Wish(answer)))
}

/// A rung may end a request before its deadline: only a deadline that was moved since opens it again.
fn unless_a_rung_ended_it(request: Option<&Request>, want: &Want, cell: Cell) -> Cell {
    let ended = request.and_then(|request| request.handling.ladder.ended.as_ref());
    match (cell, ended, want) {
        (Cell::OpenAgain, Some(end), Want::Open { deadline, .. }) if *deadline <= end.deadline => {
            Cell::TimeOutStaysAndIsToldAgain
        }
        _ => cell,
    }
}

const fn spec_of(want: &Want) -> Option<&HoldSpec> {
    match want {
        Want::Open { spec, .. } | Want::Frozen { spec, .. } => Some(spec),
        Want::Gone { .. } => None,
    }
}

fn take_over(turn: &mut Turn, want: &Want, scene: &Scene<'_>) -> Result<WishAnswer, Stop> {
    let was_standing = turn.request.is_standing();
    let was_gone = matches!(turn.request.phase, Phase::Gone { .. });
    let is_first = turn.request.spec.is_none() && spec_of(want).is_some();
    let is_owned = turn.request.handling.taken_over.is_some();
    if let Some(spec) = spec_of(want) {
        let spec = cleaned(spec);
        if is_first {
            turn.request.handling.settled = settled::leniently(&spec, scene)?;
        }
        turn.request.spec = Some(turn.request.handling.settled.applied(spec));
        // What was said of a run that a person owns still holds.
        turn.request.effect = turn.request.effect.filter(|_| is_owned);
    }
    if let (Phase::Frozen { since, .. }, Want::Open { .. }) = (&turn.request.phase, want) {
        let since = *since;
        ladder::stood(&mut turn.request, since, scene.now);
    }
    if turn.request.handling.ladder.ended.take().is_some() {
        turn.request.handling.ladder.fired -= 1;
    }
    turn.request.phase = match want {
        Want::Open { deadline, .. } => Phase::Open {
            deadline: deadline.filter(|_| !is_owned),
        },
        Want::Frozen {
            since,
            remaining_ms,
            ..
        } => Phase::Frozen {
            since: *since,
            remaining_ms: remaining_ms.filter(|_| !is_owned),
        },
        Want::Gone { reason, by } => Phase::Gone {
            reason: reason.clone(),
            by: by.clone(),
            at: scene.now,
        },
    };
    match want {
        Want::Open { .. } | Want::Frozen { .. } if is_first => {
            begin(turn, scene)?;
            turn.timed(scene.now);
        }
        Want::Open { .. } | Want::Frozen { .. } => {
            let is_open = matches!(want, Want::Open { .. });
            if is_open && is_owned && turn.request.effect == Some(Word::OnResume) {
                turn.taken_over();
            }
            if !was_standing {
                reopened(turn, scene);
            }
        }
        Want::Gone { reason, by } => {
            let to = turn.request.deciders();
            let by = by.as_deref().unwrap_or("service:executor");
            turn.note("withdrawn", by, scene.now, Some(reason.clone()));
            // Who was told that time is up is told that it did not count.
            if !was_gone {
                turn.tell_people(FactKind::Withdrawn, Some(by), scene.now, to);
            }
        }
    }
    Ok(if turn.request.end().is_some() && is_first {
        WishAnswer::Decided
    } else {
        WishAnswer::Set
    })
}

/// Its time-out is undone: it is asked again.
fn reopened(turn: &mut Turn, scene: &Scene<'_>) {
    let by = "service:executor";
    let note = "again: the clock had stood, or the deadline was moved".to_owned();
    turn.note("opened", by, scene.now, Some(note));
    let to = turn.request.audience();
    turn.tell_people(FactKind::Opened, Some(by), scene.now, to);
}

/// The alarm has come due: a rung fires, or time is up; unless it was moved, stopped or overtaken.
pub(crate) fn timer_fired(
    request: Option<&Request>,
    rev: u64,
    due: DateTime<Utc>,
    scene: &Scene<'_>,
) -> Result<Step, Stop> {
    let stale = || Ok(Step::Same(Answer::Timer(TimerAnswer::Stale)));
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
    match (request.next_deadline(), ladder::next(request)) {
        (Some(deadline), Some((rung, rung_due))) if rung_due < deadline => {
            ladder::fire(&mut turn, &rung, at, scene)?;
        }
        (None, Some((rung, _))) => ladder::fire(&mut turn, &rung, at, scene)?,
        // The alarm was set before take-over stopped the ladder.
        (None, None) if turn.request.is_owned() => {}
        (Some(_), _) | (None, None) => time_is_up(&mut turn, at, scene)?,
    }
    Ok(turn.end(|_| Answer::Timer(TimerAnswer::Applied)))
}

fn time_is_up(turn: &mut Turn, at: DateTime<Utc>, scene: &Scene<'_>) -> Result<(), Stop> {
    let on_timeout = turn.request.spec.as_ref().map(|spec| spec.on_timeout);
    match on_timeout {
        Some(OnTimeout::Escalate) if turn.request.kind() != Some(HoldKind::Timer) => {
            turn.request.escalated_at = Some(at);
            if let Some(rung) = ladder::next_to_tell(&turn.request) {
                turn.note("escalated", BY_TIME, at, Some("its time is up".to_owned()));
                ladder::fire(turn, &rung, at, scene)?;
            } else {
                let note = "its time is up: told: the owners".to_owned();
                turn.note("escalated", BY_TIME, at, Some(note));
                turn.tell_people(FactKind::Escalated, None, at, Vec::new());
            }
            // A task is due: those who have it are to do it (Mend C-14).
            if turn.request.is_task() {
                turn.tell_audience();
            }
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
            turn.note("expired", BY_TIME, at, None);
            let to = turn.request.deciders();
            turn.tell_people(FactKind::Expired, None, at, to);
        }
    }
    Ok(())
}

/// The scheduler has confirmed an alarm: worth knowing where there is to be none any more (S0-R4).
pub(crate) fn alarm_set(request: Option<&Request>, rev: u64) -> Step {
    match request {
        Some(request)
            if request.alarm.rev == rev
                && request.alarm.due.is_none()
                && !request.alarm.is_confirmed =>
        {
            let mut turn = Turn::beside(request);
            turn.request.alarm.is_confirmed = true;
            turn.end(|_| Answer::Noted)
        }
        Some(_) | None => Step::Same(Answer::Noted),
    }
}

/// The executor knows what was done with a handoff, up to a version.
pub(crate) fn deeds_heard(request: Option<&Request>, rev: u64) -> Step {
    let same = Step::Same(Answer::Noted);
    let Some(request) = request else {
        return same;
    };
    let mut turn = Turn::beside(request);
    match turn.request.handling.untold.heard(rev) {
        true => turn.end(|_| Answer::Noted),
        false => same,
    }
}

/// The executor's word on a close. Its word on an older one says nothing: a newer one is on its way.
/// Whoever took over what was over before has nothing to complete: it is withdrawn.
pub(crate) fn told(
    request: Option<&Request>,
    rev: u64,
    answer: ClosedAnswer,
    scene: &Scene<'_>,
) -> Step {
    let effect = match answer {
        ClosedAnswer::Applied => Word::Applied,
        ClosedAnswer::OnResume => Word::OnResume,
        ClosedAnswer::RunEnded => Word::RunEnded,
    };
    match request {
        Some(request)
            if request.closed_rev == Some(rev)
                && (request.end().is_some() || request.take_over().is_some())
                && request.effect != Some(effect) =>
        {
            if effect == Word::RunEnded && request.is_standing() {
                return over_before(request, scene);
            }
            let mut turn = Turn::beside(request);
            turn.request.effect = Some(effect);
            turn.request.handling.untold.heard(rev);
            turn.end(|_| Answer::Noted)
        }
        Some(_) | None => Step::Same(Answer::Noted),
    }
}

/// The run waits for it no more, and did not when somebody took it over.
fn over_before(request: &Request, scene: &Scene<'_>) -> Step {
    let to = request.deciders();
    let by = "service:executor";
    let reason = "it was over before it was taken over".to_owned();
    let mut turn = Turn::on(request);
    turn.request.effect = Some(Word::RunEnded);
    turn.note("withdrawn", by, scene.now, Some(reason.clone()));
    turn.tell_people(FactKind::Withdrawn, Some(by), scene.now, to);
    turn.request.phase = Phase::Gone {
        reason,
        by: None,
        at: scene.now,
    };
    turn.end(|_| Answer::Noted)
}
