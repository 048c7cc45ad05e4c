//! The plan that a planner makes for one run: it is checked when it comes, approved, and then continues the run.

use std::sync::Arc;

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::ApprovalItem;
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::run::ActionResult;
use holdpoint_contracts::steps::Feedback;
use holdpoint_contracts::tool::START_PLAN;
use holdpoint_ids::ToolName;
use serde_json::{Value, json};

use crate::domain::decision::Undecided;
use crate::domain::definition::MAX_STEPS as STEPS_MAX;
use crate::domain::input::StepReport;
use crate::domain::model::plan::Plan;
use crate::domain::model::plan::planner::OWN_STEPS;
use crate::domain::model::run::{Step, StepPhase};
use crate::domain::need::{OWN_PLAN, PlanFact};
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

/// Who refuses a plan that is not valid.
const CHECKED_BY: &str = "holdpoint";

/// Why the result of the planner is not a valid plan; none: it is one, or the step calls no planner.
pub(crate) fn plan_error(
    transition: &RunTransition<'_>,
    index: usize,
    data: &Value,
) -> Result<Option<String>, Undecided> {
    let plan = transition.plan()?;
    if !plan.plan.is_planner(index) || !is_planned(transition, index) {
        return Ok(None);
    }
    let errors = plan.plan.with_steps(steps_of(data)).err();
    Ok(errors.map(|errors| format!("the plan is not valid: {}", errors_text(&errors))))
}

/// The planned steps come first, and a child has no plan of its own.
fn is_planned(transition: &RunTransition<'_>, index: usize) -> bool {
    let step = transition.step(index);
    step.is_some_and(|step| step.child_of.is_none())
}

/// Tells the planner what was wrong with its plan. It keeps what a person has asked for.
pub(crate) fn keep_plan_errors(transition: &mut RunTransition<'_>, index: usize, error: &str) {
    let Some(step) = transition.step_mut(index) else {
        return;
    };
    let earlier = step.feedback.as_deref();
    let by_person = earlier.filter(|earlier| earlier.by != CHECKED_BY);
    let asked = by_person.and_then(|earlier| earlier.instructions.lines().next());
    let lines: Vec<_> = asked.into_iter().chain([error]).collect();
    step.feedback = Some(Box::new(Feedback {
        instructions: cut(&lines.join("\n"), FEEDBACK_CHARS_MAX),
        by: by_person
            .map_or(CHECKED_BY, |earlier| &earlier.by)
            .to_owned(),
        revision: earlier.map_or(0, |earlier| earlier.revision),
    }));
}

/// Adds a new plan to the history.
pub(crate) fn record_plan(
    transition: &mut RunTransition<'_>,
    index: usize,
    report: &StepReport,
) -> Result<(), Undecided> {
    let plan = transition.plan()?;
    if !plan.plan.is_planner(index) || !is_planned(transition, index) {
        return Ok(());
    }
    let Ok(made) = plan.plan.with_steps(steps_of(&report.result.data)) else {
        return Ok(());
    };
    let steps = shown_steps(&made).map(|(id, text)| json!({ "id": id, "text": text }));
    let steps: Vec<_> = steps.collect();
    let message = format!("{} made a plan of {}.", report.step, count_text(&made));
    let data = json!({ "steps": steps, "count": made.steps.len() - OWN_STEPS });
    transition.event(
        EventType::RunPlanGenerated,
        Some(&report.step),
        message,
        data,
    );
    Ok(())
}

/// The plan of an approval as people read it; `null` for another call.
pub(crate) fn plan_context(transition: &RunTransition<'_>, item: &ApprovalItem) -> Value {
    let plan = transition.plan().ok();
    let plan = plan.filter(|_| item.tool.as_str() == START_PLAN);
    let made = plan.and_then(|plan| plan.plan.with_steps(steps_of(&item.args)).ok());
    let Some(made) = made else {
        return Value::Null;
    };
    let lines = shown_steps(&made).map(|(id, text)| format!("{id}: {text}"));
    let mut lines: Vec<_> = lines.collect();
    let left = made.steps.len() - OWN_STEPS - lines.len();
    if left > 0 {
        lines.push(format!("and {left} more, which the arguments have"));
    }
    json!({ "plan": lines })
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
    let steps = steps.skip(OWN_STEPS).take(STEPS_SHOWN);
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
pub(crate) fn start_plan(transition: &mut RunTransition<'_>, index: usize, args: &Value) {
    let Ok(plan) = transition.plan() else {
        return;
    };
    let made = match plan.plan.with_steps(steps_of(args)) {
        Ok(made) if !transition.run.has_own_plan => made,
        Ok(_) => {
            let message = "the run has started a plan before";
            return fail_step(transition, index, INVALID_PLAN, message, None);
        }
        Err(errors) => {
            let message = format!("the plan is not valid: {}", errors_text(&errors));
            return fail_step(transition, index, INVALID_PLAN, &message, None);
        }
    };
    let text = format!("Started a plan of {}", count_text(&made));
    let result = json!({ "count": made.steps.len() - OWN_STEPS });
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
    transition.value(OWN_PLAN.to_owned(), stored);
    let steps = made.steps.iter().skip(OWN_STEPS);
    let steps = steps.map(|step| Step::planned(step.id.clone(), step.on_error));
    transition.run.steps.extend(steps);
    transition.run.has_own_plan = true;
    transition.own_plan = Some(Arc::new(PlanFact::new(made)));
}

/// A failed report about a plan that is not valid.
pub(crate) fn refused_plan(report: &StepReport, error: String) -> StepReport {
    StepReport {
        error_code: Some(INVALID_PLAN.to_owned()),
        result: ActionResult {
            success: false,
            description: error.clone(),
            error: Some(error),
            ..report.result.clone()
        },
        ..report.clone()
    }
}

fn steps_of(data: &Value) -> &Value {
    data.get("steps").unwrap_or(&Value::Null)
}

fn count_text(made: &Plan) -> String {
    match made.steps.len().saturating_sub(OWN_STEPS) {
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
        texts.push(format!("{left} more errors"));
    }
    texts.join(" ")
}
