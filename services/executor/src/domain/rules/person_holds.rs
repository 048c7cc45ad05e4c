//! Opens the holds of `ask` and `handoff` steps (S3-R1, S0-AC6).

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::HoldSpec;
use holdpoint_contracts::instant;
use holdpoint_contracts::run::{ActionResult, HoldKind};
use serde_json::{Value, json};

use crate::domain::model::plan::person_steps::{Ask, Handoff, whom};
use crate::domain::model::run::{PersonHold, StepPhase};
use crate::domain::rules::handoff_spec::{Offer, announce_handoff, handoff_spec};
use crate::domain::rules::open_hold::{answer_form, next_hold_id, open_hold, steps_left};
use crate::domain::rules::resolved_args::{resolve_default, resolve_recipients, resolve_text};
use crate::domain::step_response::{handoff_data, question_data, success};
use crate::domain::transition::{RowData, RunTransition};
use crate::domain::views::handoff_briefing::HandoffFacts;

/// Begins an `ask` (S3-R1).
pub(crate) fn ask_person(
    transition: &mut RunTransition<'_>,
    index: usize,
    ask: &Ask,
    resolved: &Value,
) {
    let Some(to) = resolve_recipients(transition, index, resolved.get("to")) else {
        return;
    };
    let Some(question) = resolve_text(transition, index, resolved.get("question")) else {
        return;
    };
    let Ok(default) = resolve_default(transition, index, ask, resolved) else {
        return;
    };
    let id = next_hold_id(&mut transition.run);
    let spec = HoldSpec {
        step: transition.step(index).map(|step| step.id.clone()),
        agent: Some(transition.run.agent.clone()),
        options: ask.options.clone(),
        schema: ask.schema.clone(),
        link: ask.link.clone(),
        priority: ask.priority,
        assign: ask.assign,
        to: to.clone(),
        on_timeout: ask.on_timeout,
        default,
        requester: Some(transition.run.started_by.0.clone()),
        steps_left: Some(steps_left(transition, index)),
        policies: ask.policies.clone(),
        time_by_policy: ask.time_by_policy,
        ..HoldSpec::asking(HoldKind::Input, question.clone())
    };
    let on = open_hold(transition, id, &spec, Some(ask.timeout_ms));
    let request = json!({
        "to": to, "question": question, "options": ask.options, "schema": ask.schema, "link": ask.link,
        "timeout_ms": ask.timeout_ms, "on_timeout": ask.on_timeout, "default": spec.default,
    });
    let description = format!("Asked {}: {question}", whom(&to));
    let data = json!({
        "request": id, "deadline": on.deadline().map(instant::write), "on_timeout": ask.on_timeout,
        "to": to, "questions": [{ "id": id, "question": question, "schema": answer_form(&spec) }],
    });
    let response = success(description.clone(), question_data(&on), 0);
    put_on_hold(transition, index, on, request, response);
    let step = spec.step.as_deref();
    transition.event(EventType::RunAwaitingInput, step, description, data);
}

fn put_on_hold(
    transition: &mut RunTransition<'_>,
    index: usize,
    on: PersonHold,
    request: Value,
    response: ActionResult,
) {
    let row = RowData {
        request: Some(request),
        ..RowData::response(response)
    };
    transition.set_phase(index, StepPhase::AwaitingPerson(Box::new(on)), row);
}

/// Begins a `handoff` (S0-AC6, S0-AC7).
pub(crate) fn start_handoff(
    transition: &mut RunTransition<'_>,
    index: usize,
    handoff: &Handoff,
    resolved: &Value,
    mut facts: HandoffFacts,
) {
    let Some(to) = resolve_recipients(transition, index, resolved.get("to")) else {
        return;
    };
    let Some(message) = resolve_text(transition, index, resolved.get("message")) else {
        return;
    };
    let id = next_hold_id(&mut transition.run);
    facts.recommended.clone_from(&message);
    let offer = Offer { id, to: &to, facts };
    let spec = handoff_spec(transition, index, handoff, offer);
    let length_ms = Some(handoff.timeout_ms).filter(|ms| *ms > 0);
    let on = open_hold(transition, id, &spec, length_ms);
    let request = json!({
        "to": to, "message": message, "priority": spec.priority, "warm_lead": spec.warm_lead,
        "timeout_ms": handoff.timeout_ms, "on_timeout": handoff.on_timeout,
    });
    let description = format!("Handed off to {}.", whom(&to));
    let response = success(description.clone(), handoff_data(&on), 0);
    put_on_hold(transition, index, on.clone(), request, response);
    announce_handoff(transition, &spec, &on, description);
}
