//! Which steps of a failed run start again.

use std::collections::BTreeSet;

use crate::domain::decision::Undecided;
use crate::domain::model::plan::{Action, OnError, Plan};
use crate::domain::model::run::{Run, Step, StepPhase};
use crate::domain::refusal::Refusal;

/// A step that starts again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RetriedStep {
    pub(crate) index: usize,
    /// It keeps what people did: their answer, or the work of a tool that they did by hand.
    pub(crate) is_kept: bool,
}

/// The steps that start again, in the order of the plan: those that stopped the run, those that had not ended, and
/// with `from` that step and all that depend on it. Every other step keeps its result, and people are not asked
/// again what they have answered. Only `from` itself is.
pub(crate) fn retried_steps(
    plan: &Plan,
    run: &Run,
    from: Option<usize>,
) -> Result<Vec<RetriedStep>, Undecided> {
    let stopped: BTreeSet<usize> = (run.steps.iter().enumerate())
        .filter_map(|(index, step)| has_stopped(step).then_some(index))
        .collect();
    let id = |index: &usize| run.steps.get(*index).map_or("", |step| &step.id).to_owned();
    if let Some(from) = from
        && let Some(before) = needed_by(plan, from).intersection(&stopped).next()
    {
        return Err(Refusal::RetryTooLate(id(&from), id(before)).into());
    }
    let mut again = stopped;
    if let Some(from) = from {
        again.extend(depending_on(plan, from));
    }
    let retried = again.into_iter().map(|index| RetriedStep {
        index,
        is_kept: Some(index) != from && is_kept(plan, run, index),
    });
    Ok(retried.collect())
}

/// Whether a step kept the run from completing. A failure that its author lets pass is a result.
fn has_stopped(step: &Step) -> bool {
    match step.phase {
        StepPhase::Failed { .. } => match step.on_error {
            OnError::Fail | OnError::Handoff => true,
            OnError::Continue | OnError::SkipRest => false,
        },
        StepPhase::Completed { .. } | StepPhase::Skipped { .. } => false,
        StepPhase::Cancelled { .. }
        | StepPhase::Planned
        | StepPhase::Queued(_)
        | StepPhase::Granted(_)
        | StepPhase::Waiting(_)
        | StepPhase::Uncertain(_)
        | StepPhase::AwaitingPerson(_)
        | StepPhase::Parked(_) => true,
    }
}

fn is_kept(plan: &Plan, run: &Run, index: usize) -> bool {
    let (Some(planned), Some(step)) = (plan.steps.get(index), run.steps.get(index)) else {
        return false;
    };
    let is_of_people = matches!(planned.action, Action::Ask(_) | Action::Handoff(_));
    let is_completed = matches!(step.phase, StepPhase::Completed { .. });
    is_completed && (is_of_people || step.by_person)
}

/// The steps that a step needs, directly or through others.
fn needed_by(plan: &Plan, index: usize) -> BTreeSet<usize> {
    let mut needed = BTreeSet::new();
    let mut open = vec![index];
    while let Some(step) = open.pop().and_then(|index| plan.steps.get(index)) {
        open.extend(
            step.needs
                .iter()
                .copied()
                .filter(|need| needed.insert(*need)),
        );
    }
    needed
}

/// A step, and all that need it, directly or through others.
fn depending_on(plan: &Plan, index: usize) -> BTreeSet<usize> {
    let mut needing = vec![Vec::new(); plan.steps.len()];
    for (at, step) in plan.steps.iter().enumerate() {
        for need in &step.needs {
            if let Some(steps) = needing.get_mut(*need) {
                steps.push(at);
            }
        }
    }
    let mut depending = BTreeSet::from([index]);
    let mut open = vec![index];
    while let Some(steps) = open.pop().and_then(|index| needing.get(index)) {
        open.extend(steps.iter().copied().filter(|at| depending.insert(*at)));
    }
    depending
}
