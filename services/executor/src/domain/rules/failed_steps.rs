//! How a run goes on after a step has failed: its next steps start, and its handoffs get their context.

use holdpoint_contracts::run::HoldKind;
use serde_json::Value;

use crate::domain::decision::Undecided;
use crate::domain::model::plan::Action;
use crate::domain::model::run::{Step, StepPhase, spec_name};
use crate::domain::need::{Key, Need};
use crate::domain::rules::failure_handoff::failure_handoff;
use crate::domain::rules::handoff_spec::{Offer, handoff_spec, load_briefing};
use crate::domain::rules::next_steps::start_next_steps;
use crate::domain::transition::RunTransition;

/// Continues a run in which a step has failed by this decision.
pub(crate) fn continue_after_failures(transition: &mut RunTransition<'_>) -> Result<(), Undecided> {
    if transition.run.is_final() {
        return Ok(());
    }
    let is_failed = |step: &Step| matches!(step.phase, StepPhase::Failed { .. });
    let run = &transition.run;
    let was_open = |index| {
        let was = run.step_before(transition.before, index);
        was.is_some_and(|was| !is_failed(was))
    };
    let mut steps = run.steps.iter().enumerate();
    if steps.any(|(index, step)| is_failed(step) && was_open(index)) {
        start_next_steps(transition)?;
    }
    brief_handoffs(transition)
}

/// Adds the whole context to the handoffs of steps that have failed by this decision (S0-T2).
pub(crate) fn brief_handoffs(transition: &mut RunTransition<'_>) -> Result<(), Undecided> {
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
        let planned = transition.planned(&plan, index);
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
