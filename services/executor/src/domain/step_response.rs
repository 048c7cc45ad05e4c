//! The responses of steps that wait for people, and of steps that ended without a result (S0-R5, S0-T1).

use chrono::{DateTime, Utc};
use holdpoint_contracts::instant;
use holdpoint_contracts::run::{ActionResult, HoldKind};
use serde_json::{Value, json};

use crate::domain::error_text::ERROR_CHARS_MAX;
use crate::domain::model::run::person_hold::{Clock, PersonHold};
use crate::domain::model::run::step::StepPhase;
use crate::domain::model::time::millis_between;

/// What a handoff step knows of itself from the beginning (S0-T1).
pub(crate) fn handoff_data(on: &PersonHold) -> Value {
    let resume_at = match on.clock {
        Clock::Set { due } | Clock::Frozen { due, .. } if on.continues_on_timeout() => Some(due),
        Clock::Set { .. } | Clock::Frozen { .. } | Clock::None => None,
    };
    json!({
        "scheduled": resume_at.is_some(),
        "resume_at": resume_at.map(instant::write),
        "task_id": on.id,
        "is_warm_lead": on.warm_lead,
    })
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
    match was {
        StepPhase::Asked(on) if on.kind == HoldKind::Handoff => handoff_data(on),
        StepPhase::Asked(on) => question_data(on),
        StepPhase::Waiting(_) => json!({ "scheduled": false, "resume_at": null }),
        StepPhase::Planned
        | StepPhase::Queued(_)
        | StepPhase::Working(_)
        | StepPhase::Parked(_)
        | StepPhase::Uncertain(_)
        | StepPhase::Completed { .. }
        | StepPhase::Failed { .. }
        | StepPhase::Skipped { .. }
        | StepPhase::Cancelled { .. } => Value::Null,
    }
}

/// What the response of a question has from its opening on.
pub(crate) fn question_data(on: &PersonHold) -> Value {
    json!({ "question_id": on.id, "deadline": on.deadline().map(instant::write) })
}

/// Since when a step waited or worked; none: it had not begun.
const fn began_at(was: &StepPhase) -> Option<DateTime<Utc>> {
    match was {
        StepPhase::Waiting(hold) => Some(hold.since),
        StepPhase::Asked(on) => Some(on.since),
        StepPhase::Parked(open) => Some(open.on.since),
        StepPhase::Working(working) => Some(working.since),
        StepPhase::Uncertain(asked) => Some(asked.working.since),
        StepPhase::Planned
        | StepPhase::Queued(_)
        | StepPhase::Completed { .. }
        | StepPhase::Failed { .. }
        | StepPhase::Skipped { .. }
        | StepPhase::Cancelled { .. } => None,
    }
}
