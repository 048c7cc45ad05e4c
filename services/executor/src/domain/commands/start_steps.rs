//! `executor.start_steps`: a worker asks whether it may start a delivered step.

use holdpoint_contracts::steps::Grant;

use crate::domain::decision::Undecided;
use crate::domain::effect::Reply;
use crate::domain::input::DeliveredStep;
use crate::domain::model::run::{AtWorker, Dispatched, MissingTool, Step, StepGrant, StepPhase};
use crate::domain::model::time::millis_between;
use crate::domain::model::tool::ToolEntry;
use crate::domain::refusal::Refusal;
use crate::domain::rules::approval_gate::may_start_gated;
use crate::domain::rules::approver_rights::knows_users;
use crate::domain::rules::dispatch_step::load_tool_entry;
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
    let queued = current.phase.try_as_queued_ref();
    let is_gated = queued.is_some_and(|handed| handed.is_gated);
    if is_gated && transition.run.may_call() && !knows_users(&transition) {
        // Every doubt means no. The step stays queued, and its worker asks again.
        return Err(Refusal::DirectoryUnconfirmed.into());
    }
    let is_high = delivered.is_high_risk;
    if queued.is_some_and(|handed| needs_approval(&transition, current, handed, is_high)) {
        // It is probably dispatched again, and the kernel loads needs at most four times.
        load_open_hold_needs(&transition, &[index])?;
    }
    let entry = queued_entry(&transition, index, current)?;
    let is_changed = has_changed_tool(&entry, current);
    // A worker registers its definition before it takes steps, so the registry knows a new risk.
    let is_high_risk = is_high && !entry.is_high_at_nodes();
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
                && current.missing_tool().is_none()
                && !is_high_risk
                && delivered.delivery <= 1 =>
        {
            return Ok(granted(Grant::GoWithoutLease));
        }
        Some(AtWorker::Queued(handed))
            if is_changed || needs_approval(&transition, current, handed, is_high_risk) =>
        {
            return redispatch_before_start(transition, index, is_high_risk);
        }
        // The worker says it, and neither a node nor an operator has denied it.
        Some(AtWorker::Queued(handed)) => Dispatched {
            idempotent: handed.idempotent
                || (delivered.is_idempotent && (!entry.is_known() || entry.is_idempotent())),
            missing_tool: MissingTool::NotAsked,
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

/// Whether the approval of a step has become void since its dispatch, or its worker knows of a risk that the registry
/// does not know.
fn needs_approval(
    transition: &RunTransition<'_>,
    step: &Step,
    handed: &Dispatched,
    is_high_risk: bool,
) -> bool {
    if handed.is_gated {
        !may_start_gated(transition, step)
    } else {
        is_high_risk
    }
}

/// The registry entries of the tool of a queued step.
fn queued_entry(
    transition: &RunTransition<'_>,
    index: usize,
    step: &Step,
) -> Result<ToolEntry, Undecided> {
    match step.phase.try_as_queued_ref() {
        Some(_) => load_tool_entry(transition, index),
        None => Ok(ToolEntry::default()),
    }
}

/// Whether the registry has changed the tool of a queued step since the dispatch. Many steps are dispatched before the
/// first node registers their tool. They start if nothing would have been different.
fn has_changed_tool(entry: &ToolEntry, step: &Step) -> bool {
    match step.phase.try_as_queued_ref() {
        Some(handed) if handed.revision.is_some() => {
            entry.is_deleted() || entry.revision() != handed.revision
        }
        Some(_) => entry.has_rules(),
        None => false,
    }
}

/// The step does not start. It passes the gate again, which dispatches it again or asks people.
fn redispatch_before_start<'a>(
    mut transition: RunTransition<'a>,
    index: usize,
    is_high_risk: bool,
) -> RunDecision<'a> {
    load_open_hold_needs(&transition, &[index])?;
    if let Some(step) = transition.step_mut(index) {
        step.is_high_risk |= is_high_risk;
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
