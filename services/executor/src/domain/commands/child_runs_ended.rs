//! `executor.child_runs_ended`: a run that a step has started has ended, or its start was refused.

use holdpoint_contracts::executor::{ChildRunEnd, ChildRunEndReply};
use holdpoint_contracts::run::RunStatus;
use holdpoint_contracts::size::json_bytes;
use holdpoint_ids::HoldId;
use serde_json::json;

use crate::domain::effect::Reply;
use crate::domain::input::RefusedChildRun;
use crate::domain::model::run::Run;
use crate::domain::model::run::child_runs::{ChildRunFailure, ChildRuns, child_output_name};
use crate::domain::rules::budgets::count_child_run;
use crate::domain::rules::next_steps::start_next_steps;
use crate::domain::transition::{RunDecision, RunOutcome, RunTransition};

/// Records the end once. It counts in the budget also if the step no longer waits.
pub(crate) fn end_child_run<'a>(
    mut transition: RunTransition<'a>,
    end: &ChildRunEnd,
) -> RunDecision<'a> {
    let step = step_of(&transition.run, end.id);
    let runs = step.and_then(|index| transition.step(index)?.child_runs.as_deref());
    let place = runs.and_then(|runs| runs.open_place(end.child));
    let (Some(index), Some(place)) = (step, place) else {
        return Ok(ignored());
    };
    if transition.run.is_final() {
        return Ok(ignored());
    }
    if end.status == RunStatus::Completed {
        let value = json!({ "summary": end.message, "output": end.output });
        if let Some(runs) = runs_of(&mut transition, index) {
            runs.record_completed(place, json_bytes(&value));
        }
        transition.value(child_output_name(end.child), value);
    } else if let Some(runs) = runs_of(&mut transition, index) {
        let failure = ChildRunFailure {
            run: end.child,
            status: end.status,
            code: None,
            message: end.message.clone(),
        };
        runs.record_failure(place, failure);
    }
    count_child_run(&mut transition, end.steps, end.cost);
    continue_parent(transition)
}

/// A refused start is the end of the child. A newer desired state gets a reply of its own.
pub(crate) fn refuse_child_run<'a>(
    mut transition: RunTransition<'a>,
    refused: &RefusedChildRun,
) -> RunDecision<'a> {
    let step = step_of(&transition.run, refused.hold);
    let runs = step.and_then(|index| transition.step(index)?.child_runs.as_deref());
    let runs = runs.filter(|runs| runs.rev <= refused.rev);
    let place = usize::try_from(refused.place).unwrap_or(usize::MAX);
    let child = runs.and_then(|runs| runs.runs.get(place));
    let child = child.filter(|run| run.end.is_none()).map(|run| run.run);
    let (Some(index), Some(child)) = (step, child) else {
        return Ok(ignored());
    };
    if transition.run.is_final() {
        return Ok(ignored());
    }
    let failure = ChildRunFailure {
        run: child,
        status: RunStatus::Failed,
        code: Some(refused.code.clone()),
        message: format!("its start was refused: {}", refused.message),
    };
    if let Some(runs) = runs_of(&mut transition, index) {
        runs.record_failure(place, failure);
    }
    continue_parent(transition)
}

/// A run that ended or was deleted absorbs the ends of its children.
pub(crate) fn ignored<'a>() -> RunOutcome<'a> {
    RunOutcome::Unchanged(Reply::ChildRunEnd(ChildRunEndReply::Ignored))
}

fn step_of(run: &Run, hold: HoldId) -> Option<usize> {
    let mut steps = run.steps.iter();
    steps.position(|step| {
        let runs = step.child_runs.as_deref();
        runs.is_some_and(|runs| runs.hold == hold)
    })
}

fn runs_of<'t>(transition: &'t mut RunTransition<'_>, index: usize) -> Option<&'t mut ChildRuns> {
    transition.step_mut(index)?.child_runs.as_deref_mut()
}

/// The outcome of the step waits while a person owns the run.
fn continue_parent(mut transition: RunTransition<'_>) -> RunDecision<'_> {
    start_next_steps(&mut transition)?;
    transition.decided(Reply::ChildRunEnd(ChildRunEndReply::Applied))
}
