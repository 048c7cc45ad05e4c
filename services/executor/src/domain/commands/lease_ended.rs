//! The sweep of leases reports a grant that ended without a result (S4-R4, S4-R12).

use holdpoint_ids::NodeName;

use crate::domain::effect::Reply;
use crate::domain::model::run::Step;
use crate::domain::rules::open_hold_needs::load_open_hold_needs;
use crate::domain::rules::released_steps::release_step;
use crate::domain::rules::step_retries::end_overdue_attempt;
use crate::domain::rules::uncertain_steps::Doubt;
use crate::domain::transition::{RunDecision, RunOutcome, RunTransition};

/// A grant has ended without a result (S4-R4, S4-R12): what does no harm twice is dispatched again,
/// about anything else people are asked.
pub(crate) fn end_lease<'a>(
    mut transition: RunTransition<'a>,
    step: &str,
    dispatch: u64,
    node: &NodeName,
) -> RunDecision<'a> {
    let Some(index) = transition.open_position(step)? else {
        return Ok(RunOutcome::Unchanged(Reply::Nothing(())));
    };
    let current = transition
        .step(index)
        .filter(|step| step.dispatch == dispatch);
    let granted = current.and_then(|step| step.phase.try_as_granted_ref());
    let Some(lost) = granted.filter(|grant| grant.node == *node).cloned() else {
        return Ok(RunOutcome::Unchanged(Reply::Nothing(())));
    };
    load_open_hold_needs(&transition, &[index])?;
    let is_parking = transition.step(index).is_some_and(Step::is_parking);
    if !is_parking && lost.ends_at().is_some_and(|end| end <= transition.now) {
        end_overdue_attempt(&mut transition, index, &lost)?;
        return transition.decided(Reply::Nothing(()));
    }
    release_step(&mut transition, index, lost, Doubt::Unreported)?;
    transition.decided(Reply::Nothing(()))
}
