//! Whether the result of a tool fits the schema that the tool was registered with.

use std::borrow::Cow;

use holdpoint_contracts::run::ActionResult;
use holdpoint_holds::json_schema::{join_errors, value_errors};
use holdpoint_holds::redaction::{RESULT, without_values};

use crate::domain::decision::Undecided;
use crate::domain::input::StepReport;
use crate::domain::rules::dispatch_step::load_tool_entry;
use crate::domain::transition::RunTransition;

/// Code of a step whose result does not fit.
const INVALID_RESULT: &str = "invalid_result";

/// The report, as a failure if its result does not fit the schema. The effect has happened then, so the data
/// stays in the response.
pub(crate) fn check_result<'r>(
    transition: &RunTransition<'_>,
    index: usize,
    report: &'r StepReport,
) -> Result<Cow<'r, StepReport>, Undecided> {
    let fits = Ok(Cow::Borrowed(report));
    let at_worker = transition
        .step(index)
        .and_then(|step| step.phase.at_worker());
    let has_schema = at_worker.is_some_and(|at| at.dispatched().has_result_schema);
    if !report.result.success || !has_schema {
        return fits;
    }
    let entry = load_tool_entry(transition, index)?;
    let schema = entry.result_schema();
    let errors = schema.map(|schema| value_errors(schema, &report.result.data));
    let errors = errors.unwrap_or_default();
    if errors.is_empty() {
        return fits;
    }
    let errors = join_errors(&without_values(errors, RESULT, &entry.redaction()));
    let error = format!("the result does not fit `result_schema`: {errors}");
    Ok(Cow::Owned(StepReport {
        error_code: Some(INVALID_RESULT.to_owned()),
        result: ActionResult {
            success: false,
            error: Some(error),
            ..report.result.clone()
        },
        ..report.clone()
    }))
}
