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
use crate::domain::model::plan::planner::PLANNER_STEPS;
use crate::domain::model::plan::{Plan, PlannedStep};
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
const STEP_CHARS_SHOWN: usize = 2_000;

/// Longest text of one argument that is shown without words.
const VALUE_CHARS_SHOWN: usize = 300;

/// Most bytes of the words of a plan. The others are in the arguments.
const PLAN_BYTES_SHOWN: usize = 24 * 1024;

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
    let errors = match plan.plan.with_steps_of(&report.result.data) {
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
    let steps = shown_steps(made).into_iter();
    let steps: Vec<_> = steps
        .map(|(id, text)| json!({ "id": id, "text": text }))
        .collect();
    let message = format!("{step} made a plan of {}.", length_text(made));
    let data = json!({ "steps": steps, "count": length_of(made) });
    transition.event(EventType::RunPlanGenerated, Some(step), message, data);
}

/// What people are asked about a plan.
pub(crate) struct PlanApproval {
    /// Of the request, after `Approve`.
    pub(crate) title: String,
    /// What the agent wants to do.
    pub(crate) wish: String,
    /// Its steps in words.
    pub(crate) context: Value,
    /// The shape of an edited plan.
    pub(crate) args_schema: Value,
    /// The number of its steps.
    pub(crate) length: u32,
}

/// What people are asked about a call that starts a plan; none: it is another call.
///
/// # Errors
/// The plan is not valid, so that people cannot approve it.
pub(crate) fn plan_approval(
    transition: &RunTransition<'_>,
    tool: &ToolName,
    args: &Value,
) -> Result<Option<PlanApproval>, String> {
    let plan = transition.plan().ok();
    let Some(plan) = plan.filter(|_| tool.as_str() == START_PLAN) else {
        return Ok(None);
    };
    let made = plan.plan.with_steps_of(args);
    let made = made.map_err(|errors| not_valid(&errors_text(&errors)))?;
    let lines = shown_steps(&made).into_iter();
    let mut lines: Vec<_> = lines.map(|(id, text)| format!("{id}: {text}")).collect();
    let left = length_of(&made) - lines.len();
    if left > 0 {
        lines.push(format!("and {left} more, which the arguments have"));
    }
    let contact = transition.run.contact.as_ref();
    let about = contact.map(|contact| format!(" for {contact}"));
    let about = about.unwrap_or_default();
    Ok(Some(PlanApproval {
        title: format!("a plan{about}"),
        wish: format!("start a plan of {}{about}", length_text(&made)),
        context: json!({ "plan": lines }),
        args_schema: json!({
            "type": "object",
            "properties": { "steps": {
                "type": "array", "minItems": 1, "maxItems": STEPS_MAX, "items": { "type": "object" },
            } },
            "required": ["steps"],
            "additionalProperties": false,
        }),
        length: u32::try_from(length_of(&made)).unwrap_or(u32::MAX),
    }))
}

/// The first steps that a planner made, in words.
fn shown_steps(made: &Plan) -> Vec<(&str, String)> {
    let steps = made.steps.iter().zip(&made.words).enumerate();
    let steps = steps.skip(PLANNER_STEPS);
    let steps = steps.map(|(index, (step, words))| {
        let text = if words.is_empty() {
            described_step(made, index, step)
        } else {
            cut(words, STEP_CHARS_SHOWN)
        };
        (step.id.as_str(), text)
    });
    let mut bytes = 0;
    let shown = steps.take_while(|(_, text)| {
        bytes += text.len();
        bytes <= PLAN_BYTES_SHOWN
    });
    shown.take(STEPS_SHOWN).collect()
}

/// A step for which the grammar has no words: what it does, when, and with which arguments.
fn described_step(made: &Plan, index: usize, step: &PlannedStep) -> String {
    let mut text = step.describe();
    if let Some(when) = &step.when {
        text = format!("{text}, if {when}");
    }
    let needed: Vec<_> = (step.needs.iter())
        .filter_map(|at| made.steps.get(*at))
        .map(|needed| needed.id.as_str())
        .collect();
    // By default a step follows the one before.
    if step.needs.as_slice() != [index.saturating_sub(1)] {
        text = match needed.as_slice() {
            [] => format!("{text}, at once"),
            needed => format!("{text}, after {}", needed.join(" and ")),
        };
    }
    let args = step.action.template();
    let args = args.map(|args| format!(" with {}", short_args(&args)));
    cut(&(text + &args.unwrap_or_default()), STEP_CHARS_SHOWN)
}

/// Arguments of which each text is cut, so that none hides another.
fn short_args(args: &Value) -> String {
    let short = match args {
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(name, value)| (name.clone(), short_value(value)));
            Value::Object(fields.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            short_value(args)
        }
    };
    cut(&short.to_string(), STEP_CHARS_SHOWN)
}

fn short_value(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(cut(text, VALUE_CHARS_SHOWN)),
        Value::Array(_) | Value::Object(_) => {
            Value::String(cut(&value.to_string(), VALUE_CHARS_SHOWN))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Continues the run with an approved plan. The arguments may be edited, so they are compiled again.
pub(crate) fn start_plan(
    transition: &mut RunTransition<'_>,
    plan: &Plan,
    index: usize,
    args: &Value,
) {
    let made = match plan.with_steps_of(args) {
        Ok(made) => made,
        Err(errors) => {
            let message = not_valid(&errors_text(&errors));
            return fail_step(transition, index, INVALID_PLAN, &message, None);
        }
    };
    let text = format!("Started a plan of {}", length_text(&made));
    let result = json!({ "count": length_of(&made) });
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

/// The number of steps that the planner made.
const fn length_of(made: &Plan) -> usize {
    made.steps.len().saturating_sub(PLANNER_STEPS)
}

fn length_text(made: &Plan) -> String {
    match length_of(made) {
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
