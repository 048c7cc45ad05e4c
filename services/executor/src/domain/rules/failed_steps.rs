//! How a run goes on after a step has failed: its next steps start, or people do what the step could not.

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::OnTimeout;
use holdpoint_contracts::instant;
use holdpoint_contracts::run::{ActionResult, HoldKind};
use holdpoint_holds::deadline::default_timeout_ms;
use serde_json::{Value, json};

use crate::domain::decision::Undecided;
use crate::domain::model::plan::Action;
use crate::domain::model::plan::person_steps::{Handoff, whom};
use crate::domain::model::run::{StepPhase, spec_name};
use crate::domain::need::{Key, Need};
use crate::domain::rules::handoff_spec::{Offer, handoff_spec, load_briefing};
use crate::domain::rules::next_steps::start_next_steps;
use crate::domain::rules::open_hold::{next_hold_id, open_hold};
use crate::domain::step_response::{add_fields, handoff_data};
use crate::domain::transition::{RowData, RunTransition, ToolError};
use crate::domain::views::handoff_briefing::HandoffFacts;

/// The handoff of a failed step: to the owners, and without an answer in time the run fails.
fn failure_handoff(message: String) -> Handoff {
    Handoff {
        to: json!([]),
        message: Some(message),
        priority: Default::default(),
        assign: Default::default(),
        timeout_ms: default_timeout_ms(HoldKind::Handoff),
        time_by_policy: false,
        on_timeout: OnTimeout::Fail,
        warm_lead: Some(false),
        policies: Vec::new(),
    }
}

/// Hands a failed step to the owners. They complete it, or they end the run.
pub(crate) fn hand_off_step(
    transition: &mut RunTransition<'_>,
    index: usize,
    message: &str,
    error: Option<ToolError>,
) {
    let id = next_hold_id(&mut transition.run);
    let Some(step) = transition.step_mut(index) else {
        return;
    };
    // Its tool has ended and waits for no answer.
    step.questions.open = None;
    let text = format!("{} failed: {message}", step.id);
    let handoff = failure_handoff(text.clone());
    // The whole context is added when all steps of this decision are known.
    let facts = HandoffFacts {
        recommended: text.clone(),
        ..HandoffFacts::default()
    };
    let offer = Offer { id, to: &[], facts };
    let spec = handoff_spec(transition, index, &handoff, offer);
    let on = open_hold(transition, id, &spec, Some(handoff.timeout_ms));
    let mut data = handoff_data(&on);
    let deadline = on.deadline().map(instant::write);
    let (failed_attempts, duration_ms) = error.map_or_else(Default::default, |error| {
        (error.failed_attempts, error.response.duration_ms)
    });
    let row = RowData {
        failed_attempts,
        ..RowData::response(ActionResult {
            success: false,
            description: message.to_owned(),
            error: Some(message.to_owned()),
            data: data.clone(),
            duration_ms,
        })
    };
    transition.set_phase(index, StepPhase::AwaitingPerson(Box::new(on)), row);
    let step = spec.step.as_deref();
    transition.event(
        EventType::HandoffOffered,
        step,
        spec.question.clone(),
        json!({
            "request": id, "to": spec.to, "priority": spec.priority, "is_warm_lead": spec.warm_lead,
            "task_id": id, "deadline": deadline, "on_timeout": handoff.on_timeout,
        }),
    );
    add_fields(&mut data, json!({ "hold": id, "kind": HoldKind::Handoff }));
    let message = format!("Handed off to {}: {text}", whom(&spec.to));
    transition.event(EventType::RunWaiting, step, message, data);
}

/// Continues a run in which a step has failed by this decision.
pub(crate) fn continue_after_failures(transition: &mut RunTransition<'_>) -> Result<(), Undecided> {
    if transition.run.is_final() {
        return Ok(());
    }
    let is_failed = |phase: &StepPhase| matches!(phase, StepPhase::Failed { .. });
    let steps = transition.before.steps.iter().zip(&transition.run.steps);
    let mut steps = steps.map(|(was, now)| (&was.phase, &now.phase));
    if steps.any(|(was, now)| is_failed(now) && !is_failed(was)) {
        start_next_steps(transition)?;
    }
    brief_handoffs(transition)
}

/// Adds the whole context to the handoffs of steps that have failed by this decision (S0-T2).
fn brief_handoffs(transition: &mut RunTransition<'_>) -> Result<(), Undecided> {
    let opened = transition.run.steps.iter().enumerate();
    let opened = opened.filter_map(|(index, step)| {
        let on = step.phase.try_as_awaiting_person_ref()?;
        let is_new = on.kind == HoldKind::Handoff && on.id.number > transition.before.holds;
        is_new.then_some((index, on.id))
    });
    let opened: Vec<_> = opened.collect();
    if opened.is_empty() || transition.run.is_final() {
        return Ok(());
    }
    let plan = transition.plan()?;
    for (index, id) in opened {
        let planned = plan.plan.steps.get(index);
        if planned.is_none_or(|planned| matches!(planned.action, Action::Handoff(_))) {
            continue;
        }
        let mut unknown = Vec::new();
        let mut facts = load_briefing(transition, &plan, &mut unknown);
        let contact = transition.run.contact.clone();
        let need =
            contact.map(|id| Need::State(Key::Contact(transition.run.workspace.clone(), id)));
        let contact = need.and_then(|need| transition.find_value(need, &mut unknown));
        let kept =
            transition.find_value(Need::Value(transition.run.id, spec_name(id)), &mut unknown);
        if !unknown.is_empty() {
            return Err(Undecided::NeedsMore(unknown));
        }
        let text = kept
            .as_deref()
            .and_then(|spec| spec.get("task")?.get("description")?.as_str());
        facts.recommended = text.unwrap_or_default().to_owned();
        facts.contact = contact.as_deref().cloned().unwrap_or(Value::Null);
        let handoff = failure_handoff(facts.recommended.clone());
        let offer = Offer { id, to: &[], facts };
        let spec = handoff_spec(transition, index, &handoff, offer);
        let spec = serde_json::to_value(spec).unwrap_or_default();
        transition.replace_value(spec_name(id), spec);
    }
    Ok(())
}
