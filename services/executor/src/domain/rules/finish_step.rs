//! A `finish` step ends its run: open steps are skipped, and its author says how.

use holdpoint_contracts::run::FailureClass;
use serde_json::{Value, json};

use crate::domain::definition::signal_steps::SUMMARY_CHARS_MAX;
use crate::domain::model::plan::signal_steps::{Finish, FinishStatus};
use crate::domain::model::run::StepPhase;
use crate::domain::step_response::success;
use crate::domain::text::cut;
use crate::domain::transition::{RowData, RunTransition};

/// Code of a run that a `finish` has ended as failed.
const FINISHED_AS_FAILED: &str = "finished_as_failed";

/// Completes the step, and returns the summary of the run if that completes too.
pub(crate) fn finish_by_step(
    transition: &mut RunTransition<'_>,
    index: usize,
    finish: &Finish,
    resolved: &Value,
) -> Option<String> {
    let summary = match resolved.get("summary") {
        Some(Value::String(text)) => text.clone(),
        // A placeholder may stand for any value.
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let summary = cut(&summary, SUMMARY_CHARS_MAX);
    let data = json!({ "summary": summary });
    let response = success(summary.clone(), data.clone(), 0);
    let phase = StepPhase::Completed { at: transition.now };
    let id = transition.set_phase(index, phase, RowData::response(response))?;
    transition.value(id.clone(), data);
    match finish.status {
        FinishStatus::Completed => {
            let data = json!({ "reason": "finish", "by": id });
            transition.skip_rest(&format!("Skipped: {id} ended the run."), &data);
            Some(summary)
        }
        FinishStatus::Failed => {
            transition.fail(FailureClass::Agent, FINISHED_AS_FAILED, summary);
            None
        }
    }
}
