//! The gated calls of an approval: what people see, and the arguments that they may edit (S2-R4).

use holdpoint_contracts::executor::PlannedAgent;
use holdpoint_contracts::handoff::RequestView;
use holdpoint_contracts::hold::ApprovalItem;
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::tool::START_PLAN;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::attempt::RequestAttempt;
use super::context;
use super::sanitize::one_line;
use super::session::{Fields, SignedInUser};
use crate::use_cases::plan_warnings::asks_about_plan;

/// The field with the edited arguments.
pub(super) const ARGS: &str = "args";

/// Steps of an edited plan that are shown in words.
const STEPS_SHOWN: usize = 100;

/// Tool and arguments in readable form, with the JSON that will run.
pub(super) fn calls(request: &RequestView) -> Markup {
    html! {
        @for item in &request.items {
            section.context.call {
                h3 {
                    "Call " code { (one_line(item.tool.as_str(), 100)) }
                    @if let Some(version) = &item.version { " version " code { (one_line(version, 200)) } }
                }
                // The context has the steps of a plan in words.
                @if item.tool.as_str() == START_PLAN {
                    (plan_warnings(request))
                    (as_json(&item.args, &item.digest))
                } @else {
                    (arguments(&item.args, &item.digest))
                }
            }
        }
    }
}

/// What is doubtful in an open plan. A list of requests does not check plans.
fn plan_warnings(request: &RequestView) -> Markup {
    html! {
        @match &request.warnings {
            Some(warnings) => (warning_list(warnings)),
            None if asks_about_plan(request) => {
                p.hint { a href={ "/requests/" (request.id) } { "Open the request" } " to see the warnings of its plan." }
            }
            None => {}
        }
    }
}

fn warning_list(warnings: &[FieldError]) -> Markup {
    html! {
        @for warning in warnings {
            p.why { strong { "Warning: " } (one_line(&step_message(warning), 400)) }
        }
    }
}

/// An error or a warning with its step, and the name that was perhaps meant.
pub(super) fn step_message(error: &FieldError) -> String {
    let step = error.step.as_deref();
    let step = step.map(|step| format!("{step}: ")).unwrap_or_default();
    let nearest = error.nearest.first();
    let nearest = nearest.map(|name| format!(" Did you mean `{name}`?"));
    format!("{step}{}{}", error.message, nearest.unwrap_or_default())
}

/// Arguments as people read them, and in full as the JSON that will run.
pub(super) fn arguments(args: &Value, digest: &str) -> Markup {
    html! {
        (context::value(args, 0))
        (as_json(args, digest))
    }
}

fn as_json(args: &Value, digest: &str) -> Markup {
    html! {
        details {
            summary { "Show as JSON" }
            pre { (json_text(args)) }
            p.muted { "Digest " code { (digest) } }
        }
    }
}

/// A link to the form that approves later calls of this kind; empty for a user who may not create a standing approval.
pub(super) fn advance_link(user: &SignedInUser, request: &RequestView) -> Markup {
    let is_one_call = request.items.len() == 1 && request.agent.is_some();
    html! {
        @if is_one_call && user.may_approve_in_advance() {
            p.hint { a href={ "/standing-approvals/new?like=" (request.id) } { "Approve such calls in advance" } }
        }
    }
}

/// The inputs of the approve form. If several people vote, the arguments cannot be edited.
pub(super) fn inputs(request: &RequestView, id: &str, attempt: &RequestAttempt) -> Markup {
    let Some(item) = request.items.first() else {
        return html! {};
    };
    let submitted = attempt.fields.get("args").unwrap_or_default();
    let is_edited = !submitted.is_empty() && !is_requested(item, submitted);
    let text = if is_edited {
        submitted.to_owned()
    } else {
        args_text(item)
    };
    let is_plan = item.tool.as_str() == START_PLAN;
    let errors = attempt.errors.iter().filter(|(name, _)| name == ARGS);
    let errors: Vec<_> = errors.map(|(_, message)| message.as_str()).collect();
    html! {
        input type="hidden" name="digest" value=(item.digest);
        @if request.votes.is_none() {
            details.inline open[is_edited || attempt.planned.is_some()] {
                summary { @if is_plan { "Edit the plan" } @else { "Edit the arguments" } }
                label.hidden[!is_plan] for={ (id) "-args" } {
                    @if is_plan { "Steps as JSON, as in an agent" } @else { "Arguments as JSON" }
                }
                textarea id={ (id) "-args" } name=(ARGS) rows=(if is_plan { 20 } else { 8 }) spellcheck="false"
                    data-typed[is_edited] aria-invalid=[(!errors.is_empty()).then_some("true")] aria-describedby={ (id) "-checked" } { (text) }
                div id={ (id) "-checked" } {
                    @if !errors.is_empty() { ul.notice.bad { @for error in errors { li { (one_line(error, 400)) } } } }
                    @if let Some(planned) = &attempt.planned { (edited_plan(planned)) }
                }
                @if is_plan { button name="check" value="plan" { "Check the plan" } }
            }
        }
    }
}

/// The steps of an edited plan in words.
fn edited_plan(planned: &PlannedAgent) -> Markup {
    html! {
        h4 { "The plan as edited" }
        ol {
            @for step in planned.steps.iter().take(STEPS_SHOWN) {
                li { code { (one_line(&step.id, 100)) } " " (one_line(step.words.as_ref().unwrap_or(&step.action), 400)) }
            }
        }
        @if let Some(left) = planned.steps.len().checked_sub(STEPS_SHOWN).filter(|left| *left > 0) {
            p.muted { "and " (left) " more" }
        }
        (warning_list(&planned.warnings))
    }
}

/// The arguments of the form if the person has changed them.
///
/// # Errors
/// The text is not JSON.
pub(super) fn edited_args(
    fields: &Fields,
    request: &RequestView,
) -> Result<Option<Value>, serde_json::Error> {
    let (Some(text), Some(item)) = (fields.get_text(ARGS), request.items.first()) else {
        return Ok(None);
    };
    if is_requested(item, text) {
        return Ok(None);
    }
    let edited: Value = serde_json::from_str(text)?;
    let is_list_of_plan = edited.is_array() && item.tool.as_str() == START_PLAN;
    let edited = if is_list_of_plan {
        json!({ "steps": edited })
    } else {
        edited
    };
    Ok((edited != item.args).then_some(edited))
}

/// The text that a person edits: all arguments, or the steps of a plan.
fn args_text(item: &ApprovalItem) -> String {
    let steps = item.args.get("steps");
    let steps = steps.filter(|_| item.tool.as_str() == START_PLAN);
    json_text(steps.unwrap_or(&item.args))
}

fn json_text(args: &Value) -> String {
    serde_json::to_string_pretty(args).unwrap_or_default()
}

/// A browser sends lines with CRLF.
fn is_requested(item: &ApprovalItem, text: &str) -> bool {
    text.replace("\r\n", "\n").trim() == args_text(item).trim()
}
