//! Whether the result of a tool fits the schema that the tool was registered with.

use std::borrow::Cow;

use holdpoint_contracts::run::ActionResult;
use holdpoint_holds::json_schema::{join_errors, value_errors};

use crate::domain::decision::{Lookup, Undecided};
use crate::domain::input::StepReport;
use crate::domain::model::run::{AtWorker, StepPhase};
use crate::domain::rules::dispatch_step::{registered_tool, tool_need};
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
    let step = transition.step(index);
    if !report.result.success || !step.is_some_and(|step| has_schema(&step.phase)) {
        return fits;
    }
    let plan = transition.plan()?;
    let Some(planned) = plan.plan.steps.get(index) else {
        return fits;
    };
    if let Some(need) = tool_need(transition, planned)
        && matches!(transition.lookup(&need), Lookup::NotLoaded)
    {
        return Err(Undecided::NeedsMore(vec![need]));
    }
    let tool = registered_tool(transition, planned);
    let schema = tool
        .as_deref()
        .and_then(|it| it.spec.result_schema.as_ref());
    let errors = schema.map(|schema| value_errors(schema, &report.result.data));
    let errors = errors.unwrap_or_default();
    if errors.is_empty() {
        return fits;
    }
    let errors = join_errors(&errors);
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

/// Whether the tool of a step had a schema for results when the step was dispatched.
fn has_schema(phase: &StepPhase) -> bool {
    phase.at_worker().is_some_and(|at| match at {
        AtWorker::Queued(handed) => handed.has_result_schema,
        AtWorker::Granted(grant) => grant.handed.has_result_schema,
        AtWorker::Uncertain(asked) => asked.working.handed.has_result_schema,
    })
}
