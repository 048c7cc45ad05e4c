//! A step that fails for good fails its run.

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::run::FailureClass;
use serde_json::json;

use crate::domain::model::run::StepPhase;
use crate::domain::transition::{RowData, RunTransition, ToolError};

fn failure_class(code: &str) -> FailureClass {
    match code {
        APPROVAL_REJECTED | ASSIGNEE_INACTIVE | "withdrawn" => FailureClass::Policy,
        HUMAN_TIMEOUT => FailureClass::HumanTimeout,
        // Its worker was lost. A person only says that nothing more is known.
        "given_up" => FailureClass::Infra,
        _ => FailureClass::Agent,
    }
}

/// A step failed for good: so does the run.
pub(crate) fn fail_step(
    transition: &mut RunTransition<'_>,
    index: usize,
    code: &str,
    message: &str,
    error: Option<ToolError>,
) {
    let mut data = RowData {
        error_code: Some(code.to_owned()),
        ..RowData::ended_because(message)
    };
    if let Some(error) = error {
        data.response = Some(error.response);
        data.raw_error = Some(error.raw);
        data.failed_attempts = error.failed_attempts;
    }
    let phase = StepPhase::Failed { at: transition.now };
    let Some(id) = transition.set_phase(index, phase, data) else {
        return;
    };
    let data = json!({ "code": code });
    transition.event(EventType::StepFailed, Some(&id), message.to_owned(), data);
    // Its words are fixed (S0-R1).
    let message = match code {
        ASSIGNEE_INACTIVE => message.to_owned(),
        _ => format!("{id}: {message}"),
    };
    transition.fail(failure_class(code), code, message);
}

/// Code of a step whose assignee is inactive (S0-R1).
pub(crate) const ASSIGNEE_INACTIVE: &str = "assignee_inactive";

/// Code of a step that uses the result of a rejected step (S2-R4).
pub(crate) const APPROVAL_REJECTED: &str = "approval_rejected";

/// Code of a step that was not answered in time.
pub(crate) const HUMAN_TIMEOUT: &str = "human_timeout";
