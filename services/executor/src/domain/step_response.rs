//! The responses of steps that wait for people, and of steps that ended without a result (S0-R5, S0-T1).

use chrono::{DateTime, Utc};
use holdpoint_contracts::instant;
use holdpoint_contracts::run::{ActionResult, HoldKind};
use serde_json::{Value, json};

use crate::domain::error_text::ERROR_CHARS_MAX;
use crate::domain::model::run::{Deadline, PersonHold, StepPhase};
use crate::domain::model::time::millis_between;

/// What a handoff step knows of itself from the beginning (S0-T1).
pub(crate) fn handoff_data(on: &PersonHold) -> Value {
    let resume_at = match on.clock {
        Deadline::Set { due } | Deadline::Frozen { due, .. } if on.continues_on_timeout() => {
            Some(due)
        }
        Deadline::Set { .. } | Deadline::Frozen { .. } | Deadline::None => None,
    };
    json!({
        "scheduled": resume_at.is_some(),
        "resume_at": resume_at.map(instant::write),
        "task_id": on.id,
        "is_warm_lead": on.warm_lead,
    })
}

pub(crate) fn add_fields(data: &mut Value, more: Value) {
    if let (Value::Object(fields), Value::Object(more)) = (data, more) {
        fields.extend(more);
    }
}

/// The response of a step that began to wait, or that succeeded.
pub(crate) const fn success(description: String, data: Value, duration_ms: u64) -> ActionResult {
    ActionResult {
        success: true,
        description,
        error: None,
        data,
        duration_ms,
    }
}

/// The response of a step that failed, was skipped or was cancelled. The phase before this decision says
/// when the step began to wait or work, and what its opening promised.
pub(crate) fn ended_result(was: Option<&StepPhase>, why: &str, now: DateTime<Utc>) -> ActionResult {
    let why: String = why.chars().take(ERROR_CHARS_MAX).collect();
    ActionResult {
        success: false,
        description: why.clone(),
        error: Some(why),
        data: was.map_or(Value::Null, opening_data),
        duration_ms: was
            .and_then(began_at)
            .map_or(0, |since| millis_between(since, now)),
    }
}

/// The fields that the response of opening had: a client finds them at the end, too.
fn opening_data(was: &StepPhase) -> Value {
    if let Some(on) = was.try_as_awaiting_person_ref() {
        return if on.kind == HoldKind::Handoff {
            handoff_data(on)
        } else {
            question_data(on)
        };
    }
    match was.try_as_waiting_ref() {
        Some(hold) if hold.backoff.is_none() => {
            json!({ "scheduled": false, "resume_at": null })
        }
        Some(_) | None => Value::Null,
    }
}

/// What the response of a question has from its opening on.
pub(crate) fn question_data(on: &PersonHold) -> Value {
    json!({ "question_id": on.id, "deadline": on.deadline().map(instant::write) })
}

/// Since when a step waited or worked; none: it had not begun.
fn began_at(was: &StepPhase) -> Option<DateTime<Utc>> {
    (was.try_as_awaiting_person_ref().map(|on| on.since))
        .or_else(|| was.try_as_parked_ref().map(|open| open.on.since))
        .or_else(|| was.try_as_waiting_ref().map(|hold| hold.since))
        .or_else(|| was.grant().map(|grant| grant.since))
}
