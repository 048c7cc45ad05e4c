//! A `finish` step ends its run: open steps are skipped, and its author says how.

use holdpoint_contracts::run::FailureClass;
use holdpoint_contracts::size::json_bytes;
use serde_json::{Value, json};

use crate::domain::definition::signal_steps::SUMMARY_CHARS_MAX;
use crate::domain::model::plan::signal_steps::{Finish, FinishStatus};
use crate::domain::model::run::StepPhase;
use crate::domain::model::run::child_runs::{OUTPUT, OUTPUT_BYTES_MAX};
use crate::domain::rules::fail_step::fail_step;
use crate::domain::step_response::{add_fields, success};
use crate::domain::text::cut;
use crate::domain::transition::{RowData, RunTransition};

/// Code of a run that a `finish` has ended as failed.
const FINISHED_AS_FAILED: &str = "finished_as_failed";

/// Code of a `finish` whose output is too large.
const OUTPUT_TOO_LARGE: &str = "output_too_large";

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
    let output = resolved.get("output");
    let bytes = output.map_or(0, json_bytes);
    if bytes > OUTPUT_BYTES_MAX {
        let message = format!(
            "the `output` is {bytes} bytes of JSON; at most {OUTPUT_BYTES_MAX} are allowed"
        );
        fail_step(transition, index, OUTPUT_TOO_LARGE, &message, None);
        return None;
    }
    let mut data = json!({ "summary": summary });
    if let Some(output) = output {
        add_fields(&mut data, json!({ "output": output }));
        // A run that is retried may end without an output.
        if finish.status == FinishStatus::Completed {
            transition.value(OUTPUT.to_owned(), output.clone());
        }
    }
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
