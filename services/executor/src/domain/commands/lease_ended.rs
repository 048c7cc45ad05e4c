//! The sweep of leases reports a grant that ended without a result (S4-R4, S4-R12).

use holdpoint_ids::NodeName;

use crate::domain::effect::Reply;
use crate::domain::model::run::{Step, StepPhase};
use crate::domain::rules::next_steps::redispatch_step;
use crate::domain::rules::open_hold_needs::load_open_hold_needs;
use crate::domain::rules::step_retries::end_overdue_attempt;
use crate::domain::rules::tool_questions::park_tool;
use crate::domain::rules::uncertain_steps::{Doubt, ask_about_step};
use crate::domain::transition::{RowData, RunDecision, RunOutcome, RunTransition};

/// A grant has ended without a result (S4-R4, S4-R12): what does no harm twice is dispatched again,
/// about anything else people are asked.
pub(crate) fn end_lease<'a>(
    mut transition: RunTransition<'a>,
    step: &str,
    dispatch: u64,
    node: &NodeName,
) -> RunDecision<'a> {
    if transition.run.has_ended_child(step) {
        return Ok(RunOutcome::Unchanged(Reply::Nothing(())));
    }
    let index = transition.position(step)?;
    let current = transition
        .step(index)
        .filter(|step| step.dispatch == dispatch);
    let granted = current.and_then(|step| step.phase.try_as_granted_ref());
    let Some(lost) = granted.filter(|grant| grant.node == *node).cloned() else {
        return Ok(RunOutcome::Unchanged(Reply::Nothing(())));
    };
    load_open_hold_needs(&transition, &[index])?;
    if transition.step(index).is_some_and(Step::is_parking) {
        park_tool(&mut transition, index)?;
        return transition.decided(Reply::Nothing(()));
    }
    if lost.ends_at().is_some_and(|end| end <= transition.now) {
        end_overdue_attempt(&mut transition, index, &lost)?;
        return transition.decided(Reply::Nothing(()));
    }
    if let Some(step) = transition.step_mut(index) {
        step.lost += 1;
    }
    if !lost.handed.idempotent {
        ask_about_step(&mut transition, index, lost, Doubt::Unreported);
    } else if transition.run.moves() {
        redispatch_step(&mut transition, index)?;
    } else {
        // Nothing starts while paused: queued, so that resume hands it out.
        transition.set_phase(index, StepPhase::Queued(lost.handed), RowData::default());
    }
    transition.decided(Reply::Nothing(()))
}
