//! A worker no longer has a step, and has not reported a result (S4-R4, S4-R12).

use crate::domain::decision::Undecided;
use crate::domain::model::run::{Step, StepGrant, StepPhase};
use crate::domain::rules::next_steps::redispatch_step;
use crate::domain::rules::tool_questions::park_tool;
use crate::domain::rules::uncertain_steps::{Doubt, ask_about_step};
use crate::domain::transition::{RowData, RunTransition};

/// Dispatches again what does no harm twice. About anything else people are asked.
pub(crate) fn release_step(
    transition: &mut RunTransition<'_>,
    index: usize,
    lost: StepGrant,
    doubt: Doubt,
) -> Result<(), Undecided> {
    if transition.step(index).is_some_and(Step::is_parking) {
        return park_tool(transition, index);
    }
    if let Some(step) = transition.step_mut(index) {
        step.lost += 1;
    }
    if !lost.handed.idempotent {
        ask_about_step(transition, index, lost, doubt);
    } else if transition.run.may_call() {
        // While people are asked about the budget, it waits for their decision.
        redispatch_step(transition, index)?;
    } else {
        // Nothing starts while paused: queued, so that resume hands it out.
        transition.set_phase(index, StepPhase::Queued(lost.handed), RowData::default());
    }
    Ok(())
}
