//! `executor.start_steps`: a worker asks whether it may start a delivered step.

use holdpoint_contracts::steps::Grant;

use crate::domain::decision::Undecided;
use crate::domain::effect::Reply;
use crate::domain::input::DeliveredStep;
use crate::domain::model::run::{AtWorker, Dispatched, Step, StepGrant, StepPhase};
use crate::domain::model::time::millis_between;
use crate::domain::rules::approval_gate::may_start_gated;
use crate::domain::rules::dispatch_step::load_registered_tool;
use crate::domain::rules::next_steps::redispatch_step;
use crate::domain::rules::open_hold_needs::load_open_hold_needs;
use crate::domain::transition::{RowData, RunDecision, RunOutcome, RunTransition};

/// Answers a worker that wants to start a delivered step. `go` is a committed row.
pub(crate) fn start_delivered_step<'a>(
    mut transition: RunTransition<'a>,
    delivered: &DeliveredStep,
) -> RunDecision<'a> {
    let Some(index) = transition.open_position(&delivered.step)? else {
        return Ok(granted(Grant::Drop));
    };
    let current = transition
        .step(index)
        .filter(|step| step.dispatch == delivered.dispatch);
    let Some(current) = current else {
        return Ok(granted(Grant::Drop));
    };
    let is_changed = has_changed_tool(&transition, index, current)?;
    let handed = match current.phase.at_worker() {
        // Paused: it is dispatched anew on resume.
        Some(AtWorker::Queued(_)) if !transition.run.may_call() => return Ok(granted(Grant::Drop)),
        // An idempotent step on its first delivery needs no row: a repetition does no harm, and it can still
        // be refused.
        Some(AtWorker::Queued(handed))
            if delivered.without_lease
                && !is_changed
                && handed.idempotent
                && !handed.is_gated
                && !delivered.is_high_risk
                && delivered.delivery <= 1 =>
        {
            return Ok(granted(Grant::GoWithoutLease));
        }
        Some(AtWorker::Queued(handed))
            if is_changed || needs_approval(&transition, current, handed, delivered) =>
        {
            return redispatch_before_start(transition, index, delivered);
        }
        Some(AtWorker::Queued(handed)) => Dispatched {
            idempotent: handed.idempotent || delivered.is_idempotent,
            ..handed.clone()
        },
        // The reply to its first request was lost. A pause since then lets it finish.
        Some(AtWorker::Granted(held))
            if held.node == delivered.node && held.delivery == delivered.delivery =>
        {
            return Ok(granted(Grant::Go));
        }
        Some(AtWorker::Uncertain(_)) => return Ok(granted(Grant::Uncertain)),
        // The lease decides which worker has it, not the bus. When the lease ends, the step is dispatched
        // again.
        Some(AtWorker::Granted(_)) | None => return Ok(granted(Grant::Drop)),
    };
    transition.run.clocks.queued_ms += millis_between(handed.at, transition.now);
    let grant = StepGrant {
        handed,
        node: delivered.node.clone(),
        delivery: delivered.delivery,
        since: transition.now,
    };
    transition.set_phase(index, StepPhase::Granted(grant), RowData::default());
    transition.decided(Reply::Grant(Grant::Go))
}

/// Whether the approval of a step has expired since its dispatch, or its worker knows of a risk that the executor
/// does not know.
fn needs_approval(
    transition: &RunTransition<'_>,
    step: &Step,
    handed: &Dispatched,
    delivered: &DeliveredStep,
) -> bool {
    if handed.is_gated {
        !may_start_gated(transition, step)
    } else {
        delivered.is_high_risk
    }
}

/// Whether the registered tool of a queued step was changed or deleted since the dispatch.
fn has_changed_tool(
    transition: &RunTransition<'_>,
    index: usize,
    step: &Step,
) -> Result<bool, Undecided> {
    let handed = step.phase.try_as_queued_ref();
    let Some(revision) = handed.and_then(|handed| handed.revision) else {
        return Ok(false);
    };
    let tool = load_registered_tool(transition, index)?;
    Ok(tool.is_none_or(|tool| tool.deleted || tool.version != revision))
}

/// The step does not start. It passes the gate again, which dispatches it again or asks people.
fn redispatch_before_start<'a>(
    mut transition: RunTransition<'a>,
    index: usize,
    delivered: &DeliveredStep,
) -> RunDecision<'a> {
    load_open_hold_needs(&transition, &[index])?;
    if let Some(step) = transition.step_mut(index) {
        step.is_high_risk |= delivered.is_high_risk;
        // It never ran.
        step.attempts = step.attempts.saturating_sub(1);
    }
    if let Some(budget) = transition.run.budget_mut() {
        budget.steps = budget.steps.saturating_sub(1);
    }
    redispatch_step(&mut transition, index)?;
    transition.decided(Reply::Grant(Grant::Drop))
}

const fn granted<'a>(grant: Grant) -> RunOutcome<'a> {
    RunOutcome::Unchanged(Reply::Grant(grant))
}
