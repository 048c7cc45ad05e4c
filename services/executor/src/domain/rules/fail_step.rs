//! A step that fails for good fails its run, unless its author says otherwise.

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::run::{FailureClass, HoldKind};
use holdpoint_holds::{ASSIGNEE_INACTIVE, POLICY_UNAVAILABLE};
use serde_json::json;

use crate::domain::model::plan::OnError;
use crate::domain::model::run::StepPhase;
use crate::domain::rules::failure_handoff::hand_off_step;
use crate::domain::transition::{RowData, RunTransition, ToolError};

fn failure_class(code: &str) -> FailureClass {
    match code {
        APPROVAL_REJECTED | ASSIGNEE_INACTIVE | POLICY_UNAVAILABLE | "withdrawn" => {
            FailureClass::Policy
        }
        HUMAN_TIMEOUT | SIGNAL_TIMEOUT => FailureClass::HumanTimeout,
        // Its worker was lost. A person only says that nothing more is known.
        "given_up" | TOOL_MISSING => FailureClass::Infra,
        _ => FailureClass::Agent,
    }
}

/// A step failed for good. Its author says what follows; by default the run fails. A run that goes on is continued
/// by [`continue_after_failures`](super::failed_steps::continue_after_failures).
pub(crate) fn fail_step(
    transition: &mut RunTransition<'_>,
    index: usize,
    code: &str,
    message: &str,
    error: Option<ToolError>,
) {
    let Some(step) = transition.step(index) else {
        return;
    };
    let (id, on_error) = (step.id.clone(), step.on_error);
    // People who were asked already are not asked once more.
    let asked = step.phase.try_as_awaiting_person_ref();
    let is_handed = asked.is_some_and(|on| on.kind == HoldKind::Handoff);
    let event = json!({ "code": code });
    transition.event(EventType::StepFailed, Some(&id), message.to_owned(), event);
    if on_error == OnError::Handoff && !is_handed {
        return hand_off_step(transition, index, message, error);
    }
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
    transition.set_phase(index, phase, data);
    match on_error {
        OnError::Continue => {}
        OnError::SkipRest => {
            let data = json!({ "reason": "step_failed", "failed": id });
            transition.skip_rest(&format!("Skipped: {id} failed."), &data);
        }
        OnError::Fail | OnError::Handoff => {
            // Its words are fixed (S0-R1).
            let message = match code {
                ASSIGNEE_INACTIVE => message.to_owned(),
                _ => format!("{id}: {message}"),
            };
            fail_parent(transition, index, code, &message);
            transition.fail(failure_class(code), code, message);
        }
    }
}

/// The step of a child that fails the run has failed, too.
fn fail_parent(transition: &mut RunTransition<'_>, index: usize, code: &str, message: &str) {
    let Some(of) = transition.step(index).and_then(|step| step.child_of) else {
        return;
    };
    let row = RowData {
        error_code: Some(code.to_owned()),
        ..RowData::ended_because(message)
    };
    let phase = StepPhase::Failed { at: transition.now };
    if let Some(id) = transition.set_phase(of.parent, phase, row) {
        let data = json!({ "code": code });
        transition.event(EventType::StepFailed, Some(&id), message.to_owned(), data);
    }
}

/// Code of a step that uses the result of a rejected step (S2-R4).
pub(crate) const APPROVAL_REJECTED: &str = "approval_rejected";

/// Code of a step that a person fails because no node offers its tool.
pub(crate) const TOOL_MISSING: &str = "tool_missing";

/// Code of a step that was not answered in time.
pub(crate) const HUMAN_TIMEOUT: &str = "human_timeout";

/// Code of a step whose signal did not arrive in time.
pub(crate) const SIGNAL_TIMEOUT: &str = "signal_timeout";

/// Code of a step whose results, or the outputs of whose runs, are too large together.
pub(crate) const RESULT_TOO_LARGE: &str = "result_too_large";

/// Code of a step whose run failed, or all whose runs did.
pub(crate) const CHILD_FAILED: &str = "child_failed";

/// Code of a step whose run was cancelled.
pub(crate) const CHILD_CANCELLED: &str = "child_cancelled";

/// Code of a step whose runs did not end in time.
pub(crate) const CHILD_TIMEOUT: &str = "child_timeout";
