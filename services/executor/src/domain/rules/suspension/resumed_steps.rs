//! What a resume does with the steps that were in progress when the run was suspended.

use std::sync::Arc;

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::size::json_bytes;
use holdpoint_contracts::suspension::StepOnResume;
use holdpoint_contracts::value_limits;
use holdpoint_holds::redaction::RESULT;
use serde_json::{Value, json};

use crate::domain::decision::Undecided;
use crate::domain::model::run::{AtWorker, Step, StepPhase, Suspension};
use crate::domain::refusal::Refusal;
use crate::domain::rules::dispatch_step::ARGS_BYTES_MAX;
use crate::domain::rules::redaction::shown_part;
use crate::domain::step_response::success;
use crate::domain::transition::{RowData, RunTransition};

/// Ends the suspension. Without a choice, workers keep the steps that they still have. A step that has stopped starts
/// again, or people are asked about it.
pub(crate) fn end_suspension(
    transition: &mut RunTransition<'_>,
    by: &Actor,
    choice: Option<&StepOnResume>,
) -> Result<(), Undecided> {
    let run = transition.run.id;
    let suspension = transition.run.suspension.take();
    let Some(choice) = choice else {
        return Ok(());
    };
    let Some(suspension) = suspension else {
        return Err(Refusal::RunNotSuspended(run).into());
    };
    let open = open_steps(transition, &suspension);
    match choice {
        StepOnResume::Redo => open.into_iter().for_each(|index| redo(transition, index)),
        StepOnResume::Skip => open
            .into_iter()
            .for_each(|index| skip(transition, index, by)),
        StepOnResume::CompleteWith { result } => {
            check_result(result)?;
            let &[index] = open.as_slice() else {
                return Err(Refusal::NotOneStep(run, open.len()).into());
            };
            complete(transition, index, by, result);
        }
    }
    Ok(())
}

/// Steps that were in progress and have not ended. An answer about an uncertain step is final.
fn open_steps(transition: &RunTransition<'_>, suspension: &Suspension) -> Vec<usize> {
    let is_open = |step: &Step| match step.phase.at_worker() {
        Some(AtWorker::Queued(_) | AtWorker::Granted(_)) => true,
        Some(AtWorker::Uncertain(asked)) => asked.answer.is_none(),
        None => false,
    };
    let was_in_flight = |step: &Step| {
        let mut in_flight = suspension.in_flight.iter();
        in_flight.any(|one| one.is_current(step))
    };
    let steps = transition.run.steps.iter().enumerate();
    let open = steps.filter(|(_, step)| is_open(step) && was_in_flight(step));
    open.map(|(index, _)| index).collect()
}

fn check_result(result: &Value) -> Result<(), Refusal> {
    if let Err(exceeded) = value_limits::check(result) {
        return Err(Refusal::InvalidResult(exceeded.to_string()));
    }
    let bytes = json_bytes(result);
    if bytes > ARGS_BYTES_MAX {
        let detail = format!("it is {bytes} bytes of JSON; at most {ARGS_BYTES_MAX} are allowed");
        return Err(Refusal::InvalidResult(detail));
    }
    Ok(())
}

/// The number of the dispatch rises, so that a late report of its worker is only evidence.
fn fence(transition: &mut RunTransition<'_>, index: usize) {
    if let Some(step) = transition.step_mut(index) {
        step.dispatch += 1;
        step.questions.open = None;
    }
}

fn redo(transition: &mut RunTransition<'_>, index: usize) {
    fence(transition, index);
    transition.set_phase(index, StepPhase::Planned, RowData::default());
}

fn skip(transition: &mut RunTransition<'_>, index: usize, by: &Actor) {
    fence(transition, index);
    let message = format!("Skipped by {by} at the resume.");
    let phase = StepPhase::Skipped { at: transition.now };
    if let Some(id) = transition.set_phase(index, phase, RowData::ended_because(&message)) {
        let data = json!({ "reason": "resumed", "by": by });
        transition.event(EventType::StepSkipped, Some(&id), message, data);
    }
}

fn complete(transition: &mut RunTransition<'_>, index: usize, by: &Actor, result: &Value) {
    fence(transition, index);
    if let Some(step) = transition.step_mut(index) {
        step.by_person = true;
    }
    let message = format!("Completed by {by} at the resume.");
    let shown = transition.step(index).map_or(Value::Null, |step| {
        Arc::unwrap_or_clone(shown_part(step, RESULT, Arc::new(result.clone())))
    });
    let response = success(message.clone(), shown, 0);
    let phase = StepPhase::Completed { at: transition.now };
    if let Some(id) = transition.set_phase(index, phase, RowData::response(response)) {
        transition.value(id.clone(), result.clone());
        let data = json!({ "by": by });
        transition.event(EventType::StepSucceeded, Some(&id), message, data);
    }
}
