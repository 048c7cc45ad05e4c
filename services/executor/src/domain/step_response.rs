//! The response of a step that ended without a result of its own (S0-R5, S0-T1).
//!
//! It replaces the response of opening the step: a question that timed out must not read as a success.

use chrono::{DateTime, Utc};
use holdpoint_contracts::instant;
use holdpoint_contracts::run::{ActionResult, HoldKind};
use serde_json::{Value, json};

use crate::domain::error_text::ERROR_CHARS_MAX;
use crate::domain::run::people::PersonHold;
use crate::domain::run::{StepPhase, millis_between};

use super::people::opening::offered;
use super::transition::RunTransition;

/// The response of a step that failed, was skipped or was cancelled. The phase before this decision says
/// when the step began to wait or work, and what its opening promised.
pub(super) fn ended_result(
    transition: &RunTransition<'_>,
    index: usize,
    why: &str,
) -> ActionResult {
    let was = transition.before.steps.get(index).map(|step| &step.phase);
    let why: String = why.chars().take(ERROR_CHARS_MAX).collect();
    ActionResult {
        success: false,
        description: why.clone(),
        error: Some(why),
        data: was.map_or(Value::Null, opening_data),
        duration_ms: was
            .and_then(began_at)
            .map_or(0, |since| millis_between(since, transition.now)),
    }
}

/// The fields that the response of opening had: a client finds them at the end, too.
fn opening_data(was: &StepPhase) -> Value {
    match was {
        StepPhase::Asked(on) if on.kind == HoldKind::Handoff => offered(on),
        StepPhase::Asked(on) => asked(on),
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
pub(super) fn asked(on: &PersonHold) -> Value {
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
