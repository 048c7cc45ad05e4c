//! What a run must know before its first step (S2-R12, S2-R16).

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{HoldOutcome, HoldSpec};
use holdpoint_contracts::instant;
use holdpoint_contracts::run::{FailureClass, HoldKind};
use serde_json::{Map, Value, json};

use crate::domain::decision::Undecided;
use crate::domain::model::plan::inputs::Inputs;
use crate::domain::model::run::{HoldClosure, PersonHold};
use crate::domain::need::{INPUT, Need};
use crate::domain::refusal::Refusal;
use crate::domain::rules::fail_step::HUMAN_TIMEOUT;
use crate::domain::rules::open_hold::{next_hold_id, open_hold};
use crate::domain::transition::RunTransition;
use crate::domain::views::hold_messages::timeout_message;

/// How long people have to say what is missing: 7 days, in milliseconds.
const MISSING_MS: u64 = 7 * 86_400_000;

/// Refuses invalid inputs. Missing ones are asked for, or refused if the agent says so.
pub(crate) fn check_inputs(
    transition: &mut RunTransition<'_>,
    inputs: &Inputs,
    given: &Value,
) -> Result<(), Undecided> {
    let errors = inputs.errors(given);
    if !errors.is_empty() {
        return Err(Refusal::InvalidInput(errors).into());
    }
    let missing = inputs.missing(given);
    if missing.is_empty() {
        return Ok(());
    }
    if !inputs.ask {
        return Err(Refusal::MissingInput(missing).into());
    }
    ask_for_inputs(transition, inputs, &missing);
    Ok(())
}

fn ask_for_inputs(transition: &mut RunTransition<'_>, inputs: &Inputs, missing: &[String]) {
    let id = next_hold_id(&mut transition.run);
    let names = missing.join(", ");
    let question = format!("Before {} can start: {names}?", transition.run.agent);
    let schema = inputs.form(missing);
    let spec = HoldSpec {
        agent: Some(transition.run.agent.clone()),
        schema: Some(schema.clone()),
        reason: Some("missing_input".to_owned()),
        requester: Some(transition.run.started_by.0.clone()),
        steps_left: u32::try_from(transition.run.steps.len()).ok(),
        ..HoldSpec::asking(HoldKind::Input, question.clone())
    };
    let on = open_hold(transition, id, &spec, Some(MISSING_MS));
    let data = json!({
        "request": id, "reason": "missing_input", "missing": missing,
        "deadline": on.deadline().map(instant::write),
        "questions": [{ "id": id, "question": question, "schema": schema }],
    });
    transition.run.missing_inputs_hold = Some(Box::new(on));
    transition.event(EventType::RunAwaitingInput, None, question, data);
}

pub(crate) fn end_missing_inputs(
    transition: &mut RunTransition<'_>,
    on: &PersonHold,
    closing: &HoldClosure,
) -> Result<(), Undecided> {
    let empty = Map::new();
    if closing.outcome != HoldOutcome::Answered {
        transition.run.missing_inputs_hold = None;
        let message = if closing.outcome == HoldOutcome::Timeout {
            timeout_message(on)
        } else {
            "The request was withdrawn.".to_owned()
        };
        transition.fail(FailureClass::HumanTimeout, HUMAN_TIMEOUT, message);
        return Ok(());
    }
    let plan = transition.plan()?;
    let given = merge_answers(transition, closing.data.as_object().unwrap_or(&empty))?;
    transition.run.missing_inputs_hold = None;
    let inputs = plan.plan.inputs.as_ref();
    let missing = inputs.map(|inputs| inputs.missing(&given));
    transition.value(INPUT.to_owned(), given);
    let by = &closing.by;
    let data = json!({ "by": by, "hold": on.id });
    let message = format!("{by} gave the missing inputs; the run continues.");
    transition.event(EventType::RunResumed, None, message, data);
    if let (Some(inputs), Some(missing)) = (inputs, missing.filter(|names| !names.is_empty())) {
        ask_for_inputs(transition, inputs, &missing);
    }
    Ok(())
}

/// The input of the run with the new answers.
fn merge_answers(
    transition: &RunTransition<'_>,
    answers: &Map<String, Value>,
) -> Result<Value, Undecided> {
    let need = Need::Value(transition.run.id, INPUT.to_owned());
    let given = transition.load_value(need)?;
    let given = given.as_ref().and_then(|given| given.as_object());
    let mut fields = given.cloned().unwrap_or_default();
    fields.extend(answers.clone());
    Ok(Value::Object(fields))
}
