//! The plan that a planner makes for one run: it is checked when it comes, approved, and then continues the run.

use std::sync::Arc;

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::run::ActionResult;
use holdpoint_contracts::tool::START_PLAN;
use holdpoint_ids::ToolName;
use serde_json::{Value, json};

use crate::domain::decision::Undecided;
use crate::domain::definition::MAX_STEPS as STEPS_MAX;
use crate::domain::input::StepReport;
use crate::domain::model::plan::Plan;
use crate::domain::model::plan::planner::PLANNER_STEPS;
use crate::domain::model::run::{Step, StepPhase};
use crate::domain::need::{GENERATED_PLAN, PlanFact};
use crate::domain::rules::fail_step::fail_step;
use crate::domain::step_response::success;
use crate::domain::text::cut;
use crate::domain::transition::{RowData, RunTransition};

/// Code of a step whose plan is not valid.
pub(crate) const INVALID_PLAN: &str = "invalid_plan";

/// Errors of a plan that are shown.
const ERRORS_SHOWN: usize = 10;

/// Steps of a plan that its event and its approval list, and the longest text of one.
const STEPS_SHOWN: usize = 100;
const STEP_CHARS_SHOWN: usize = 200;

/// Most characters of what a planner is told about its last plan.
const FEEDBACK_CHARS_MAX: usize = 4_000;

/// What the result of a step is as a plan.
pub(crate) enum PlanCheck {
    /// The step calls no planner.
    NoPlan,
    Valid(Box<Plan>),
    /// The failed report.
    Refused(Box<StepReport>),
}

/// Checks the result of a planner. The planner learns what was wrong with its plan.
pub(crate) fn check_plan(
    transition: &mut RunTransition<'_>,
    index: usize,
    report: &StepReport,
) -> Result<PlanCheck, Undecided> {
    let plan = transition.plan()?;
    if !plan.plan.is_planner(index) || !report.result.success {
        return Ok(PlanCheck::NoPlan);
    }
    let errors = match plan.plan.with_steps(steps_of(&report.result.data)) {
        Ok(made) => return Ok(PlanCheck::Valid(Box::new(made))),
        Err(errors) => errors_text(&errors),
    };
    if let Some(step) = transition.step_mut(index) {
        let feedback = step.feedback.get_or_insert_default();
        feedback.errors = Some(cut(&errors, FEEDBACK_CHARS_MAX));
        feedback.refused += 1;
    }
    let error = not_valid(&errors);
    Ok(PlanCheck::Refused(Box::new(StepReport {
        error_code: Some(INVALID_PLAN.to_owned()),
        result: ActionResult {
            success: false,
            description: error.clone(),
            error: Some(error),
            ..report.result.clone()
        },
        ..report.clone()
    })))
}

fn not_valid(errors: &str) -> String {
    format!("the plan is not valid: {errors}")
}

/// Adds a new plan to the history.
pub(crate) fn record_plan(transition: &mut RunTransition<'_>, step: &str, made: &Plan) {
    let steps = shown_steps(made).map(|(id, text)| json!({ "id": id, "text": text }));
    let steps: Vec<_> = steps.collect();
    let message = format!("{step} made a plan of {}.", count_text(made));
    let data = json!({ "steps": steps, "count": made.steps.len() - PLANNER_STEPS });
    transition.event(EventType::RunPlanGenerated, Some(step), message, data);
}

/// The plan of an approval as people read it; `null` for another call.
///
/// # Errors
/// The plan is not valid, so that people cannot approve it.
pub(crate) fn plan_context(
    transition: &RunTransition<'_>,
    tool: &ToolName,
    args: &Value,
) -> Result<Value, String> {
    let plan = transition.plan().ok();
    let Some(plan) = plan.filter(|_| tool.as_str() == START_PLAN) else {
        return Ok(Value::Null);
    };
    let made = plan.plan.with_steps(steps_of(args));
    let made = made.map_err(|errors| not_valid(&errors_text(&errors)))?;
    let lines = shown_steps(&made).map(|(id, text)| format!("{id}: {text}"));
    let mut lines: Vec<_> = lines.collect();
    let left = made.steps.len() - PLANNER_STEPS - lines.len();
    if left > 0 {
        lines.push(format!("and {left} more, which the arguments have"));
    }
    Ok(json!({ "plan": lines }))
}

/// The arguments of the step that starts a plan, so that an edited plan has this shape; none: another tool.
pub(crate) fn plan_schema(tool: &ToolName) -> Option<Value> {
    (tool.as_str() == START_PLAN).then(|| {
        json!({
            "type": "object",
            "properties": { "steps": {
                "type": "array", "minItems": 1, "maxItems": STEPS_MAX, "items": { "type": "object" },
            } },
            "required": ["steps"],
            "additionalProperties": false,
        })
    })
}

/// The first steps that a planner made, each with its words.
fn shown_steps(made: &Plan) -> impl Iterator<Item = (&str, String)> {
    let steps = made.steps.iter().zip(&made.words);
    let steps = steps.skip(PLANNER_STEPS).take(STEPS_SHOWN);
    steps.map(|(step, words)| {
        let condition = step.when.as_ref().filter(|_| words.is_empty());
        let condition = condition.map(|when| format!(", if {when}"));
        let text = if words.is_empty() {
            step.describe() + &condition.unwrap_or_default()
        } else {
            words.clone()
        };
        (step.id.as_str(), cut(&text, STEP_CHARS_SHOWN))
    })
}

/// Continues the run with an approved plan. The arguments may be edited, so they are compiled again.
pub(crate) fn start_plan(
    transition: &mut RunTransition<'_>,
    plan: &Plan,
    index: usize,
    args: &Value,
) {
    let made = match plan.with_steps(steps_of(args)) {
        Ok(made) => made,
        Err(errors) => {
            let message = not_valid(&errors_text(&errors));
            return fail_step(transition, index, INVALID_PLAN, &message, None);
        }
    };
    let text = format!("Started a plan of {}", count_text(&made));
    let result = json!({ "count": made.steps.len() - PLANNER_STEPS });
    let data = RowData {
        request: Some(args.clone()),
        ..RowData::response(success(text.clone(), result.clone(), 0))
    };
    let phase = StepPhase::Completed { at: transition.now };
    let Some(id) = transition.set_phase(index, phase, data) else {
        return;
    };
    transition.value(id.clone(), result.clone());
    transition.event(EventType::StepSucceeded, Some(&id), text, result);
    let stored = serde_json::to_value(&made).unwrap_or_default();
    transition.value(GENERATED_PLAN.to_owned(), stored);
    let steps = made.steps.iter().skip(PLANNER_STEPS);
    let steps = steps.map(|step| Step::planned(step.id.clone(), step.on_error));
    transition.run.steps.extend(steps);
    transition.run.has_generated_plan = true;
    transition.generated_plan = Some(Arc::new(PlanFact::new(made)));
}

fn steps_of(data: &Value) -> &Value {
    data.get("steps").unwrap_or(&Value::Null)
}

fn count_text(made: &Plan) -> String {
    match made.steps.len().saturating_sub(PLANNER_STEPS) {
        1 => "1 step".to_owned(),
        count => format!("{count} steps"),
    }
}

fn errors_text(errors: &[FieldError]) -> String {
    let shown = errors.iter().take(ERRORS_SHOWN);
    let mut texts: Vec<_> = shown
        .map(|error| match &error.step {
            Some(step) => format!("{step}: {}", error.message),
            None => error.message.clone(),
        })
        .collect();
    let left = errors.len().saturating_sub(ERRORS_SHOWN);
    if left > 0 {
        texts.push(format!("Errors that are not shown: {left}."));
    }
    texts.join(" ")
}
