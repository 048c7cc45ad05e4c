//! People do what a failed step could not (`on_error: handoff`).

use holdpoint_contracts::hold::OnTimeout;
use holdpoint_contracts::run::{ActionResult, HoldKind};
use holdpoint_holds::deadline::default_timeout_ms;
use serde_json::json;

use crate::domain::model::plan::person_steps::{Handoff, whom};
use crate::domain::model::run::StepPhase;
use crate::domain::rules::handoff_spec::{Offer, announce_handoff, handoff_spec};
use crate::domain::rules::open_hold::{next_hold_id, open_hold};
use crate::domain::step_response::handoff_data;
use crate::domain::transition::{RowData, RunTransition, ToolError};
use crate::domain::views::handoff_briefing::HandoffFacts;

/// The handoff of a failed step: to the owners, and without an answer in time the run fails.
pub(crate) fn failure_handoff(message: String) -> Handoff {
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
    let (failed_attempts, duration_ms) = error.map_or_else(Default::default, |error| {
        (error.failed_attempts, error.response.duration_ms)
    });
    let row = RowData {
        failed_attempts,
        ..RowData::response(ActionResult {
            success: false,
            description: message.to_owned(),
            error: Some(message.to_owned()),
            data: handoff_data(&on),
            duration_ms,
        })
    };
    transition.set_phase(index, StepPhase::AwaitingPerson(Box::new(on.clone())), row);
    let description = format!("Handed off to {}: {text}", whom(&spec.to));
    announce_handoff(transition, &spec, &on, description);
}
