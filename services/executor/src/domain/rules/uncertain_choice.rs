//! What a person's answer about an uncertain step does.

use holdpoint_contracts::history::EventType;
use serde_json::{Value, json};

use crate::domain::decision::Undecided;
use crate::domain::model::run::{Answered, Choice, StepPhase, Uncertain};
use crate::domain::model::time::millis_between;
use crate::domain::rules::fail_step::fail_step;
use crate::domain::rules::next_steps::{redispatch_step, start_next_steps};
use crate::domain::step_response::success;
use crate::domain::transition::{RowData, RunTransition};

pub(crate) fn apply_choice(
    transition: &mut RunTransition<'_>,
    id: &str,
    asked: &Uncertain,
    answer: &Answered,
) -> Result<(), Undecided> {
    let index = transition.position(id)?;
    let now = transition.now;
    transition.run.clocks.human_ms += millis_between(asked.since, now);
    if let Some(step) = transition.step_mut(index) {
        step.answered.push(asked.hold.number);
    }
    match answer.choice {
        Choice::ItHappened => {
            if let Some(step) = transition.step_mut(index) {
                step.by_person = true;
            }
            let description = format!("{} says that it happened.", answer.by);
            let response = success(description.clone(), Value::Null, 0);
            let phase = StepPhase::Completed { at: now };
            transition.set_phase(index, phase, RowData::response(response));
            transition.value(id.to_owned(), Value::Null);
            let data = json!({ "by": answer.by, "hold": asked.hold });
            transition.event(EventType::StepSucceeded, Some(id), description, data);
            start_next_steps(transition)
        }
        Choice::RunAgain => redispatch_step(transition, index),
        Choice::GiveUp => {
            if let Some(step) = transition.step_mut(index) {
                step.interrupted = Some(Box::new(asked.working.clone()));
            }
            let message = format!("{} gave up: it is not known whether it happened", answer.by);
            fail_step(transition, index, "given_up", &message, None);
            Ok(())
        }
    }
}
