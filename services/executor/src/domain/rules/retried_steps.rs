//! Which steps of a failed run start again.

use std::collections::BTreeSet;

use crate::domain::decision::Undecided;
use crate::domain::model::plan::signal_steps::FinishStatus;
use crate::domain::model::plan::{Action, OnError, Plan, PlannedStep};
use crate::domain::model::run::{Run, Step, StepPhase};
use crate::domain::refusal::Refusal;

/// A step that starts again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RetriedStep {
    pub(crate) index: usize,
    /// It keeps what people did: their answer, or the work of a tool that they did by hand.
    pub(crate) is_kept: bool,
    /// Only what has not ended of it starts again. Otherwise it depends on the step from which the run is retried.
    pub(crate) continues: bool,
}

/// The steps that start again, in the order of the plan: those that stopped the run, those that had not ended, and
/// with `from` that step and all that depend on it. Every other step keeps its result, and people are not asked
/// again what they have answered. Only `from` itself is.
pub(crate) fn retried_steps(
    plan: &Plan,
    run: &Run,
    from: Option<usize>,
) -> Result<Vec<RetriedStep>, Undecided> {
    let both = plan.steps.iter().zip(run.planned_steps()).enumerate();
    let stopped: BTreeSet<usize> = both
        .filter(|(_, (planned, step))| has_stopped(step) || has_failed_run(planned, step))
        .map(|(index, _)| index)
        .collect();
    let id = |index: &usize| run.steps.get(*index).map_or("", |step| &step.id).to_owned();
    if let Some(from) = from
        && let Some(before) = needed_by(plan, from).intersection(&stopped).next()
    {
        return Err(Refusal::RetryTooLate(id(&from), id(before)).into());
    }
    let anew = from.map_or_else(BTreeSet::new, |from| depending_on(plan, from));
    let again = stopped.union(&anew).copied();
    let retried = again.map(|index| RetriedStep {
        index,
        continues: !anew.contains(&index),
        is_kept: Some(index) != from && run.steps.get(index).is_some_and(is_kept),
    });
    Ok(retried.collect())
}

/// Whether a step kept the run from completing. A failure that its author lets pass is a result.
pub(crate) fn has_stopped(step: &Step) -> bool {
    let lets_pass = matches!(step.on_error, OnError::Continue | OnError::SkipRest);
    if matches!(step.phase, StepPhase::Failed { .. }) {
        return !lets_pass;
    }
    !matches!(
        step.phase,
        StepPhase::Completed { .. } | StepPhase::Skipped { .. }
    )
}

/// A `finish` that failed the run is complete, and decides again.
fn has_failed_run(planned: &PlannedStep, step: &Step) -> bool {
    let ended = matches!(step.phase, StepPhase::Completed { .. });
    matches!(&planned.action, Action::Finish(finish) if ended && finish.status == FinishStatus::Failed)
}

fn is_kept(step: &Step) -> bool {
    step.by_person && matches!(step.phase, StepPhase::Completed { .. })
}

/// The steps that a step needs, directly or through others.
pub(crate) fn needed_by(plan: &Plan, index: usize) -> BTreeSet<usize> {
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
pub(crate) fn depending_on(plan: &Plan, index: usize) -> BTreeSet<usize> {
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
