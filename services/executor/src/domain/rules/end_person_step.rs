//! How a step that waits for people ends.

use holdpoint_contracts::handoff::Completion;
use holdpoint_contracts::history::EventType;

use holdpoint_ids::HoldId;
use serde_json::{Value, json};

use crate::domain::model::run::{HoldClosure, PersonHold, StepPhase};
use crate::domain::rules::conditions::skip_because;
use crate::domain::rules::fail_step::{HUMAN_TIMEOUT, fail_step};
use crate::domain::step_response::success;
use crate::domain::text::cut;
use crate::domain::transition::{RowData, RunTransition};
use crate::domain::views::hold_messages::timeout_message;

pub(crate) fn completion(closing: &HoldClosure) -> Option<Completion> {
    serde_json::from_value(closing.data.clone()).ok()
}

pub(crate) fn step_of_hold(transition: &RunTransition<'_>, hold: HoldId) -> Option<String> {
    let mut people = transition.run.people();
    let (step, _) = people.find(|(_, on)| on.id == hold)?;
    step.map(|step| step.id.clone())
}

pub(crate) fn complete_person_step(
    transition: &mut RunTransition<'_>,
    index: usize,
    description: String,
    data: Value,
    waited_ms: u64,
) {
    let phase = StepPhase::Completed { at: transition.now };
    let response = success(description.clone(), data.clone(), waited_ms);
    let Some(id) = transition.set_phase(index, phase, RowData::response(response)) else {
        return;
    };
    let by = data.get("by").cloned().unwrap_or_default();
    if let Some(step) = transition.step_mut(index) {
        step.by_person = by != "timeout";
    }
    transition.value(id.clone(), data);
    transition.event(
        EventType::RunResumed,
        Some(&id),
        description,
        json!({ "by": by }),
    );
}

/// The deadline has passed, and the plan says that the step is skipped.
pub(crate) fn skip_on_timeout(transition: &mut RunTransition<'_>, index: usize, on: &PersonHold) {
    let message = format!("Skipped: {}", timeout_message(on));
    let data = json!({ "hold": on.id, "reason": "timeout" });
    skip_because(transition, index, message, data);
}

/// The deadline has passed, and the plan says that the run fails (S3-R5).
pub(crate) fn fail_on_timeout(transition: &mut RunTransition<'_>, index: usize, on: &PersonHold) {
    fail_step(transition, index, HUMAN_TIMEOUT, &timeout_message(on), None);
}

/// The handoff service refused the request (S0-R1). Its reason is the message.
pub(crate) fn fail_refused(
    transition: &mut RunTransition<'_>,
    index: usize,
    closing: &HoldClosure,
) {
    let text = |name: &str| closing.data.get(name).and_then(Value::as_str);
    let code = text("code").unwrap_or("withdrawn").to_owned();
    let message = text("message").unwrap_or("The request was withdrawn.");
    fail_step(transition, index, &code, message, None);
}

/// An answer as a person reads it: texts without quotes, cut.
pub(crate) fn answer_text(answer: &Value) -> String {
    let text = match answer {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            answer.to_string()
        }
    };
    cut(&text, 300)
}
