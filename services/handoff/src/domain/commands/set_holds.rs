//! `handoff.set_holds`: the executor sends the states that it wants of its holds.

use chrono::{DateTime, Utc};
use holdpoint_contracts::handoff::Effect as DecisionEffect;
use holdpoint_contracts::hold::{HoldSpec, HoldState, SetHoldReply};
use holdpoint_contracts::notification::RequestEventKind;
use holdpoint_contracts::run::HoldKind;
use holdpoint_holds::resolved_policies::RunPolicies;
use holdpoint_holds::sanitized;

use super::erase_hold::erase_hold;
use crate::domain::decision::{Outcome, Undecided};
use crate::domain::effect::Reply;
use crate::domain::lookup::DecisionContext;
use crate::domain::model::request::{BY_EXECUTOR, Owner, Phase, Request};
use crate::domain::refusal::Refusal;
use crate::domain::rules::erased_request::ERASED;
use crate::domain::rules::escalation;
use crate::domain::rules::initial_assignment::{assign_new_request, cancel_without_policy};
use crate::domain::rules::merge_desired_state::{MergeAction, OwnerState, merge_desired_state};
use crate::domain::rules::resolved_policies::resolve_run_policies;
use crate::domain::transition::RequestTransition;

/// Merges a desired state into the hold.
pub(crate) fn set_hold(
    request: Option<&Request>,
    rev: u64,
    state: &HoldState,
    context: &DecisionContext<'_>,
) -> Result<Outcome, Undecided> {
    if let HoldState::Erased { contact } = state {
        return Ok(erase_hold(request, rev, contact, context));
    }
    if context.id.is_standalone() {
        return Err(Refusal::StandsAlone(context.id).into());
    }
    if spec_of(state).is_some_and(|spec| spec.kind == HoldKind::Timer) {
        return Err(Refusal::TimerOfRun(context.id).into());
    }
    if let Some(request) = request.filter(|request| rev <= request.rev) {
        return Ok(Outcome::Unchanged(Reply::DesiredState(
            match OwnerState::of(Some(request)) {
                OwnerState::Decided => SetHoldReply::Decided,
                OwnerState::TimedOut(_) => SetHoldReply::TimedOut,
                OwnerState::Unknown | OwnerState::Open | OwnerState::Withdrawn => {
                    SetHoldReply::Stale
                }
            },
        )));
    }
    let action = merge_desired_state(OwnerState::of(request), state);
    let action = keep_end_by_rung(request, state, action);
    let workspace = context.facts.workspace;
    let owner = Some(Owner::Executor);
    let now = context.now;
    let create = || RequestTransition::new(Request::new(workspace, context.id, owner, now), now);
    let mut transition = request.map_or_else(create, |one| RequestTransition::on(one, now));
    transition.request.rev = rev;
    let reply = match action {
        MergeAction::Create
        | MergeAction::Adopt
        | MergeAction::Withdraw
        | MergeAction::Refreeze
        | MergeAction::Reopen => adopt_state(&mut transition, state, context)?,
        MergeAction::KeepDecisionAndResend | MergeAction::KeepDecisionUntilResume => {
            transition.send_close();
            SetHoldReply::Decided
        }
        MergeAction::KeepDecisionRunEnded => {
            // A decision that the executor has reported as applied was applied before the run ended.
            if transition.request.effect != Some(DecisionEffect::Applied) {
                transition.request.effect = Some(DecisionEffect::RunEnded);
            }
            SetHoldReply::Decided
        }
        MergeAction::KeepTimeoutAndResend => {
            transition.send_close();
            SetHoldReply::TimedOut
        }
    };
    Ok(transition.finish(|_| Reply::DesiredState(reply)))
}

/// A rung may end a request before its deadline. Then only a deadline that was moved since reopens it.
fn keep_end_by_rung(
    request: Option<&Request>,
    state: &HoldState,
    action: MergeAction,
) -> MergeAction {
    let ended = request.and_then(|request| request.progress.ladder.ended.as_ref());
    match (action, ended, state) {
        (MergeAction::Reopen, Some(end), HoldState::Open { deadline, .. })
            if *deadline <= end.deadline =>
        {
            MergeAction::KeepTimeoutAndResend
        }
        _ => action,
    }
}

const fn spec_of(state: &HoldState) -> Option<&HoldSpec> {
    match state {
        HoldState::Open { spec, .. } | HoldState::Frozen { spec, .. } => Some(spec),
        HoldState::Withdrawn { .. } | HoldState::Erased { .. } => None,
    }
}

fn adopt_state(
    transition: &mut RequestTransition,
    state: &HoldState,
    context: &DecisionContext<'_>,
) -> Result<SetHoldReply, Undecided> {
    let was_open = transition.request.is_open();
    let was_withdrawn = matches!(transition.request.phase, Phase::Withdrawn { .. });
    let is_first = transition.request.spec.is_none() && spec_of(state).is_some();
    let is_owned = transition.request.progress.taken_over.is_some();
    let mut unavailable = None;
    if let Some(spec) = spec_of(state) {
        let spec = sanitized(spec);
        if is_first {
            match resolve_run_policies(&spec, context)? {
                RunPolicies::Resolved(policies) => {
                    transition.request.progress.resolved_policies = *policies;
                }
                RunPolicies::Unavailable(reason) => unavailable = Some(reason),
            }
        }
        transition.request.spec = Some(transition.request.progress.resolved_policies.apply(spec));
        // The effect of a take-over stays while a person owns the run.
        transition.request.effect = transition.request.effect.filter(|_| is_owned);
    }
    if let (Phase::Frozen { since, .. }, HoldState::Open { .. }) =
        (&transition.request.phase, state)
    {
        let since = *since;
        escalation::skip_pause(&mut transition.request, since, context.now);
    }
    if transition.request.progress.ladder.ended.take().is_some() {
        transition.request.progress.ladder.fired -= 1;
    }
    transition.request.phase = phase_of(state, is_owned, context.now);
    match state {
        HoldState::Open { .. } | HoldState::Frozen { .. } if is_first => match unavailable {
            Some(reason) => cancel_without_policy(transition, &reason),
            None => {
                assign_new_request(transition, context)?;
                transition.request_policy_timeout();
            }
        },
        HoldState::Open { .. } | HoldState::Frozen { .. } => {
            let is_open = matches!(state, HoldState::Open { .. });
            if is_open && is_owned && transition.request.effect == Some(DecisionEffect::OnResume) {
                transition.send_take_over();
            }
            if !was_open {
                reopen(transition);
            }
        }
        // `erase_hold` does the rest.
        HoldState::Erased { .. } => {}
        HoldState::Withdrawn { reason, by } => {
            let to = transition.request.deciders();
            let by = by.as_deref().unwrap_or(BY_EXECUTOR);
            transition.add_history("withdrawn", by, Some(reason.clone()));
            // Users who were notified of a timeout learn that it did not count.
            if !was_withdrawn {
                transition.notify(RequestEventKind::Withdrawn, Some(by), to);
            }
        }
    }
    Ok(if transition.request.end().is_some() && is_first {
        SetHoldReply::Decided
    } else {
        SetHoldReply::Set
    })
}

/// The phase that a desired state wants. A run that a person owns has no deadline.
fn phase_of(state: &HoldState, is_owned: bool, now: DateTime<Utc>) -> Phase {
    match state {
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
            at: now,
        },
        HoldState::Erased { .. } => Phase::Withdrawn {
            reason: ERASED.to_owned(),
            by: None,
            at: now,
        },
    }
}

/// Undoes a timeout and notifies the audience again.
fn reopen(transition: &mut RequestTransition) {
    let by = BY_EXECUTOR;
    let note = "reopened: a pause had stopped its time, or its deadline was moved".to_owned();
    transition.add_history("opened", by, Some(note));
    let to = transition.request.audience();
    transition.notify(RequestEventKind::Opened, Some(by), to);
}
