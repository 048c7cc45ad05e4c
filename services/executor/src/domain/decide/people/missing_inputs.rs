//! What a run must know before its first step (S2-R12, S2-R16).

use std::sync::Arc;

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{HoldOutcome, HoldSpec, OnTimeout};
use holdpoint_contracts::instant;
use holdpoint_contracts::run::{Failure, FailureClass, HoldKind};
use serde_json::{Map, Value, json};

use crate::domain::need::{Fact, Found, INPUT, Need};
use crate::domain::plan::Inputs;
use crate::domain::refusal::Refusal;
use crate::domain::run::people::{Closing, OnPeople, Opened};

use super::super::turn::{Stop, Turn};
use super::HUMAN_TIMEOUT;
use super::opening::{next_hold, open};
use super::words::nobody;

/// How long people have to say what is missing: 7 days, in milliseconds.
const MISSING_MS: u64 = 7 * 86_400_000;

/// Refuses what is no input of the agent. Asks for what is missing, or refuses that too where the
/// agent says so.
pub(in crate::domain::decide) fn check(
    turn: &mut Turn<'_>,
    inputs: &Inputs,
    given: &Value,
) -> Result<(), Stop> {
    let wrong = inputs.faults(given);
    if !wrong.is_empty() {
        return Err(Stop::Refused(Refusal::InvalidInput(wrong)));
    }
    let missing = inputs.missing(given);
    if missing.is_empty() {
        return Ok(());
    }
    if !inputs.ask {
        return Err(Stop::Refused(Refusal::MissingInput(missing)));
    }
    ask(turn, inputs, &missing);
    Ok(())
}

fn ask(turn: &mut Turn<'_>, inputs: &Inputs, missing: &[String]) {
    let id = next_hold(&mut turn.run);
    let names = missing.join(", ");
    let question = format!("Before {} can start: {names}?", turn.run.agent);
    let schema = inputs.form(missing);
    let spec = HoldSpec {
        agent: Some(turn.run.agent.clone()),
        schema: Some(schema.clone()),
        reason: Some("missing_input".to_owned()),
        requester: Some(turn.run.started_by.0.clone()),
        steps_left: u32::try_from(turn.run.steps.len()).ok(),
        ..HoldSpec::asking(HoldKind::Input, question.clone())
    };
    let opened = Opened {
        kind: HoldKind::Input,
        to: Vec::new(),
        asks: question.clone(),
        form: Some(schema.clone()),
        on_timeout: OnTimeout::Fail,
        length_ms: Some(MISSING_MS),
    };
    let on = open(turn, opened, &spec, id);
    let data = json!({
        "request": id, "reason": "missing_input", "missing": missing,
        "deadline": on.deadline().map(instant::write),
        "questions": [{ "id": id, "question": question, "schema": schema }],
    });
    turn.run.gate = Some(Box::new(on));
    turn.event(EventType::RunAwaitingInput, None, question, data);
}

/// The request for what was missing has ended.
pub(super) fn over(turn: &mut Turn<'_>, on: &OnPeople, closing: &Closing) -> Result<(), Stop> {
    let empty = Map::new();
    if closing.outcome != HoldOutcome::Answered {
        turn.run.gate = None;
        let message = if closing.outcome == HoldOutcome::Timeout {
            nobody(on)
        } else {
            "The request was withdrawn.".to_owned()
        };
        turn.fail(Failure {
            class: FailureClass::HumanTimeout,
            code: HUMAN_TIMEOUT.to_owned(),
            message,
        });
        return Ok(());
    }
    let plan = turn.plan()?;
    let given = merged(turn, closing.data.as_object().unwrap_or(&empty))?;
    turn.run.gate = None;
    let missing = plan
        .plan
        .inputs
        .as_ref()
        .map(|inputs| inputs.missing(&given));
    store(turn, given, (on, closing.by.as_str()));
    if let (Some(inputs), Some(missing)) = (&plan.plan.inputs, missing)
        && !missing.is_empty()
    {
        ask(turn, inputs, &missing);
    }
    Ok(())
}

fn store(turn: &mut Turn<'_>, given: Value, (on, by): (&OnPeople, &str)) {
    turn.value(INPUT.to_owned(), given);
    let data = json!({ "by": by, "hold": on.id });
    let message = format!("{by} said what was missing; going on.");
    turn.event(EventType::RunResumed, None, message, data);
}

/// The input of the run with what was said since.
fn merged(turn: &Turn<'_>, answers: &Map<String, Value>) -> Result<Value, Stop> {
    let need = Need::Value(turn.run.id, INPUT.to_owned());
    let given = match turn.look(&need) {
        Found::Unknown => return Err(Stop::Need(vec![need])),
        Found::Here(Fact::Value(given)) => given,
        Found::Absent | Found::Here(_) => Arc::new(Value::Null),
    };
    let mut fields = given.as_object().cloned().unwrap_or_default();
    fields.extend(answers.clone());
    Ok(Value::Object(fields))
}
