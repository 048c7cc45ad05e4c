//! What other services say of a request: desired states, timers, and the executor's word on a close.

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::TimerReply;
use holdpoint_contracts::handoff::Effect as DecisionEffect;
use holdpoint_contracts::hold::{CloseReply, HoldSpec, HoldState, OnTimeout, SetHoldReply};
use holdpoint_contracts::notification::RequestEventKind;
use holdpoint_contracts::run::HoldKind;

use super::asked::cleaned;
use super::ladder;
use super::merge_desired_state::{MergeAction, OwnerState, merge_desired_state};
use super::refusal::Refusal;
use super::request::{BY_TIME, Owner, Phase, Request};
use super::settled;
use super::standalone::begin;
use super::transition::RequestTransition;
use super::{DecisionContext, Outcome, Reply, Undecided};

/// A desired state meets what is there.
pub(crate) fn set_hold(
    request: Option<&Request>,
    rev: u64,
    state: &HoldState,
    context: &DecisionContext<'_>,
) -> Result<Outcome, Undecided> {
    if context.id.is_standalone() {
        return Err(Refusal::StandsAlone(context.id).into());
    }
    if spec_of(state).is_some_and(|spec| spec.kind == HoldKind::Timer) {
        return Err(Refusal::TimerOfRun(context.id).into());
    }
    if let Some(request) = request.filter(|request| rev <= request.rev) {
        return Ok(Outcome::Unchanged(Reply::DesiredState(
            match request.owner_state() {
                OwnerState::Decided => SetHoldReply::Decided,
                OwnerState::TimedOut(_) => SetHoldReply::TimedOut,
                OwnerState::Unknown | OwnerState::Open | OwnerState::Withdrawn => {
                    SetHoldReply::Stale
                }
            },
        )));
    }
    let owner = request.map_or(OwnerState::Unknown, Request::owner_state);
    let cell = unless_a_rung_ended_it(request, state, merge_desired_state(owner, state));
    let fresh = || RequestTransition::of(Request::fresh(context, Some(Owner::Executor)));
    let mut transition = request.map_or_else(fresh, RequestTransition::on);
    transition.request.rev = rev;
    let answer = match cell {
        MergeAction::Create
        | MergeAction::TakeOver
        | MergeAction::Withdraw
        | MergeAction::Refreeze
        | MergeAction::Reopen => take_over(&mut transition, state, context)?,
        MergeAction::KeepDecisionAndResend | MergeAction::KeepDecisionUntilResume => {
            transition.tell();
            SetHoldReply::Decided
        }
        MergeAction::KeepDecisionRunEnded => {
            // Had the executor said that it was applied, that is what happened.
            if transition.request.effect != Some(DecisionEffect::Applied) {
                transition.request.effect = Some(DecisionEffect::RunEnded);
            }
            SetHoldReply::Decided
        }
        MergeAction::KeepTimeoutAndResend => {
            transition.tell();
            SetHoldReply::TimedOut
        }
    };
    Ok(transition.end(|_| Reply::DesiredState(answer)))
}

/// A rung may end a request before its deadline: only a deadline that was moved since opens it again.
fn unless_a_rung_ended_it(
    request: Option<&Request>,
    state: &HoldState,
    cell: MergeAction,
) -> MergeAction {
    let ended = request.and_then(|request| request.progress.ladder.ended.as_ref());
    match (cell, ended, state) {
        (MergeAction::Reopen, Some(end), HoldState::Open { deadline, .. })
            if *deadline <= end.deadline =>
        {
            MergeAction::KeepTimeoutAndResend
        }
        _ => cell,
    }
}

const fn spec_of(state: &HoldState) -> Option<&HoldSpec> {
    match state {
        HoldState::Open { spec, .. } | HoldState::Frozen { spec, .. } => Some(spec),
        HoldState::Withdrawn { .. } => None,
    }
}

fn take_over(
    transition: &mut RequestTransition,
    state: &HoldState,
    context: &DecisionContext<'_>,
) -> Result<SetHoldReply, Undecided> {
    let was_standing = transition.request.is_open();
    let was_gone = matches!(transition.request.phase, Phase::Withdrawn { .. });
    let is_first = transition.request.spec.is_none() && spec_of(state).is_some();
    let is_owned = transition.request.progress.taken_over.is_some();
    if let Some(spec) = spec_of(state) {
        let spec = cleaned(spec);
        if is_first {
            transition.request.progress.settled = settled::resolve_lenient(&spec, context)?;
        }
        transition.request.spec = Some(transition.request.progress.settled.applied(spec));
        // What was said of a run that a person owns still holds.
        transition.request.effect = transition.request.effect.filter(|_| is_owned);
    }
    if let (Phase::Frozen { since, .. }, HoldState::Open { .. }) =
        (&transition.request.phase, state)
    {
        let since = *since;
        ladder::stood(&mut transition.request, since, context.now);
    }
    if transition.request.progress.ladder.ended.take().is_some() {
        transition.request.progress.ladder.fired -= 1;
    }
    transition.request.phase = match state {
        HoldState::Open { deadline, .. } => Phase::Open {
            deadline: deadline.filter(|_| !is_owned),
        },
        HoldState::Frozen {
            since,
            remaining_ms,
            ..
        } => Phase::Frozen {
            since: *since,
            remaining_ms: remaining_ms.filter(|_| !is_owned),
        },
        HoldState::Withdrawn { reason, by } => Phase::Withdrawn {
            reason: reason.clone(),
            by: by.clone(),
            at: context.now,
        },
    };
    match state {
        HoldState::Open { .. } | HoldState::Frozen { .. } if is_first => {
            begin(transition, context)?;
            transition.timed(context.now);
        }
        HoldState::Open { .. } | HoldState::Frozen { .. } => {
            let is_open = matches!(state, HoldState::Open { .. });
            if is_open && is_owned && transition.request.effect == Some(DecisionEffect::OnResume) {
                transition.taken_over();
            }
            if !was_standing {
                reopened(transition, context);
            }
        }
        HoldState::Withdrawn { reason, by } => {
            let to = transition.request.deciders();
            let by = by.as_deref().unwrap_or("service:executor");
            transition.note("withdrawn", by, context.now, Some(reason.clone()));
            // Who was told that time is up is told that it did not count.
            if !was_gone {
                transition.tell_people(RequestEventKind::Withdrawn, Some(by), context.now, to);
            }
        }
    }
    Ok(if transition.request.end().is_some() && is_first {
        SetHoldReply::Decided
    } else {
        SetHoldReply::Set
    })
}

/// Its timeout is undone: it is asked again.
fn reopened(transition: &mut RequestTransition, context: &DecisionContext<'_>) {
    let by = "service:executor";
    let note = "again: the clock had stood, or the deadline was moved".to_owned();
    transition.note("opened", by, context.now, Some(note));
    let to = transition.request.audience();
    transition.tell_people(RequestEventKind::Opened, Some(by), context.now, to);
}

/// The timer has come due: a rung fires, or time is up; unless it was moved, stopped or overtaken.
pub(crate) fn timer_fired(
    request: Option<&Request>,
    rev: u64,
    due: DateTime<Utc>,
    context: &DecisionContext<'_>,
) -> Result<Outcome, Undecided> {
    let stale = || Ok(Outcome::Unchanged(Reply::Timer(TimerReply::Stale)));
    let Some(request) = request else {
        return stale();
    };
    let is_current = request.timer.rev == rev && request.timer.due.is_some();
    match request.phase {
        Phase::Open { .. } if is_current => {}
        Phase::Open { .. }
        | Phase::Frozen { .. }
        | Phase::Decided { .. }
        | Phase::TimedOut { .. }
        | Phase::Withdrawn { .. } => return stale(),
    }
    // Due times are stamped by the scheduler's clock; ours may be a little behind.
    let at = context.now.max(due);
    let mut transition = RequestTransition::on(request);
    transition.timer_fired();
    match (request.next_deadline(), ladder::next(request)) {
        (Some(deadline), Some((rung, rung_due))) if rung_due < deadline => {
            ladder::fire(&mut transition, &rung, at, context)?;
        }
        (None, Some((rung, _))) => ladder::fire(&mut transition, &rung, at, context)?,
        // The timer was set before take-over stopped the ladder.
        (None, None) if transition.request.is_owned() => {}
        (Some(_), _) | (None, None) => time_is_up(&mut transition, at, context)?,
    }
    Ok(transition.end(|_| Reply::Timer(TimerReply::Applied)))
}

fn time_is_up(
    transition: &mut RequestTransition,
    at: DateTime<Utc>,
    context: &DecisionContext<'_>,
) -> Result<(), Undecided> {
    let on_timeout = transition.request.spec.as_ref().map(|spec| spec.on_timeout);
    match on_timeout {
        Some(OnTimeout::Escalate) if transition.request.kind() != Some(HoldKind::Timer) => {
            transition.request.escalated_at = Some(at);
            if let Some(rung) = ladder::next_to_tell(&transition.request) {
                transition.note("escalated", BY_TIME, at, Some("its time is up".to_owned()));
                ladder::fire(transition, &rung, at, context)?;
            } else {
                let note = "its time is up: told: the owners".to_owned();
                transition.note("escalated", BY_TIME, at, Some(note));
                transition.tell_people(RequestEventKind::Escalated, None, at, Vec::new());
            }
            // A task is due: those who have it are to do it (Mend C-14).
            if transition.request.is_task() {
                transition.tell_audience();
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
            transition.request.phase = Phase::TimedOut { at };
            transition.close();
            transition.note("expired", BY_TIME, at, None);
            let to = transition.request.deciders();
            transition.tell_people(RequestEventKind::Expired, None, at, to);
        }
    }
    Ok(())
}

/// The scheduler has confirmed a timer: worth knowing where there is to be none any more (S0-R4).
pub(crate) fn timer_acked(request: Option<&Request>, rev: u64) -> Outcome {
    match request {
        Some(request)
            if request.timer.rev == rev
                && request.timer.due.is_none()
                && !request.timer.is_confirmed =>
        {
            let mut transition = RequestTransition::beside(request);
            transition.request.timer.is_confirmed = true;
            transition.end(|_| Reply::EventRecorded)
        }
        Some(_) | None => Outcome::Unchanged(Reply::EventRecorded),
    }
}

/// The executor knows what was done with a handoff, up to a version.
pub(crate) fn handoff_events_acked(request: Option<&Request>, rev: u64) -> Outcome {
    let same = Outcome::Unchanged(Reply::EventRecorded);
    let Some(request) = request else {
        return same;
    };
    let mut transition = RequestTransition::beside(request);
    match transition.request.progress.pending_events.heard(rev) {
        true => transition.end(|_| Reply::EventRecorded),
        false => same,
    }
}

/// The executor's word on a close. Its word on an older one says nothing: a newer one is on its way.
/// Whoever took over what was over before has nothing to complete: it is withdrawn.
pub(crate) fn close_acked(
    request: Option<&Request>,
    rev: u64,
    answer: CloseReply,
    context: &DecisionContext<'_>,
) -> Outcome {
    let effect = match answer {
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
                return over_before(request, context);
            }
            let mut transition = RequestTransition::beside(request);
            transition.request.effect = Some(effect);
            transition.request.progress.pending_events.heard(rev);
            transition.end(|_| Reply::EventRecorded)
        }
        Some(_) | None => Outcome::Unchanged(Reply::EventRecorded),
    }
}

/// The run waits for it no more, and did not when somebody took it over.
fn over_before(request: &Request, context: &DecisionContext<'_>) -> Outcome {
    let to = request.deciders();
    let by = "service:executor";
    let reason = "it was over before it was taken over".to_owned();
    let mut transition = RequestTransition::on(request);
    transition.request.effect = Some(DecisionEffect::RunEnded);
    transition.note("withdrawn", by, context.now, Some(reason.clone()));
    transition.tell_people(RequestEventKind::Withdrawn, Some(by), context.now, to);
    transition.request.phase = Phase::Withdrawn {
        reason,
        by: None,
        at: context.now,
    };
    transition.end(|_| Reply::EventRecorded)
}
