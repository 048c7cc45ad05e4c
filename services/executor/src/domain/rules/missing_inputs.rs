//! What a run must know before its first step (S2-R12, S2-R16).

use std::sync::Arc;

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{HoldOutcome, HoldSpec, OnTimeout};
use holdpoint_contracts::instant;
use holdpoint_contracts::run::{Failure, FailureClass, HoldKind};
use serde_json::{Map, Value, json};

use crate::domain::need::{Fact, INPUT, Need};
use crate::domain::plan::Inputs;
use crate::domain::refusal::Refusal;
use crate::domain::run::people::{HoldClosure, NewPersonHold, PersonHold};

use super::super::transition::RunTransition;
use super::HUMAN_TIMEOUT;
use super::opening::{next_hold, open};
use super::words::nobody;
use crate::domain::decision::{Lookup, Undecided};

/// How long people have to say what is missing: 7 days, in milliseconds.
const MISSING_MS: u64 = 7 * 86_400_000;

/// Refuses what is no input of the agent. Asks for what is missing, or refuses that too where the
/// agent says so.
pub(in crate::domain::decide) fn check(
    transition: &mut RunTransition<'_>,
    inputs: &Inputs,
    given: &Value,
) -> Result<(), Undecided> {
    let wrong = inputs.faults(given);
    if !wrong.is_empty() {
        return Err(Undecided::Refused(Refusal::InvalidInput(wrong)));
    }
    let missing = inputs.missing(given);
    if missing.is_empty() {
        return Ok(());
    }
    if !inputs.ask {
        return Err(Undecided::Refused(Refusal::MissingInput(missing)));
    }
    ask(transition, inputs, &missing);
    Ok(())
}

fn ask(transition: &mut RunTransition<'_>, inputs: &Inputs, missing: &[String]) {
    let id = next_hold(&mut transition.run);
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
    let opened = NewPersonHold {
        kind: HoldKind::Input,
        to: Vec::new(),
        asks: question.clone(),
        form: Some(schema.clone()),
        on_timeout: OnTimeout::Fail,
        length_ms: Some(MISSING_MS),
    };
    let on = open(transition, opened, &spec, id);
    let data = json!({
        "request": id, "reason": "missing_input", "missing": missing,
        "deadline": on.deadline().map(instant::write),
        "questions": [{ "id": id, "question": question, "schema": schema }],
    });
    transition.run.missing_inputs_hold = Some(Box::new(on));
    transition.event(EventType::RunAwaitingInput, None, question, data);
}

/// The request for what was missing has ended.
pub(super) fn over(
    transition: &mut RunTransition<'_>,
    on: &PersonHold,
    closing: &HoldClosure,
) -> Result<(), Undecided> {
    let empty = Map::new();
    if closing.outcome != HoldOutcome::Answered {
        transition.run.missing_inputs_hold = None;
        let message = if closing.outcome == HoldOutcome::Timeout {
            nobody(on)
        } else {
            "The request was withdrawn.".to_owned()
        };
        transition.fail(Failure {
            class: FailureClass::HumanTimeout,
            code: HUMAN_TIMEOUT.to_owned(),
            message,
        });
        return Ok(());
    }
    let plan = transition.plan()?;
    let given = merged(transition, closing.data.as_object().unwrap_or(&empty))?;
    transition.run.missing_inputs_hold = None;
    let missing = plan
        .plan
        .inputs
        .as_ref()
        .map(|inputs| inputs.missing(&given));
    store(transition, given, (on, closing.by.as_str()));
    if let (Some(inputs), Some(missing)) = (&plan.plan.inputs, missing)
        && !missing.is_empty()
    {
        ask(transition, inputs, &missing);
    }
    Ok(())
}

fn store(transition: &mut RunTransition<'_>, given: Value, (on, by): (&PersonHold, &str)) {
    transition.value(INPUT.to_owned(), given);
    let data = json!({ "by": by, "hold": on.id });
    let message = format!("{by} said what was missing; going on.");
    transition.event(EventType::RunResumed, None, message, data);
}

/// The input of the run with what was said since.
fn merged(
    transition: &RunTransition<'_>,
    answers: &Map<String, Value>,
) -> Result<Value, Undecided> {
    let need = Need::Value(transition.run.id, INPUT.to_owned());
    let given = match transition.lookup(&need) {
        Lookup::NotLoaded => return Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(Fact::Value(given)) => given,
        Lookup::Missing | Lookup::Found(_) => Arc::new(Value::Null),
    };
    let mut fields = given.as_object().cloned().unwrap_or_default();
    fields.extend(answers.clone());
    Ok(Value::Object(fields))
}
