//! The gated calls of an approval: what people see, and the arguments that they may edit (S2-R4).

use holdpoint_contracts::handoff::RequestView;
use holdpoint_contracts::hold::ApprovalItem;
use holdpoint_contracts::tool::START_PLAN;
use maud::{Markup, html};
use serde_json::Value;

use super::context;
use super::sanitize::one_line;
use super::session::{Fields, SignedInUser};

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
                    (as_json(&item.args, &item.digest))
                } @else {
                    (arguments(&item.args, &item.digest))
                }
            }
        }
    }
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
pub(super) fn inputs(request: &RequestView, id: &str, submitted: &str) -> Markup {
    let Some(item) = request.items.first() else {
        return html! {};
    };
    let is_edited = !submitted.is_empty() && !is_requested(item, submitted);
    let text = if is_edited {
        submitted.to_owned()
    } else {
        args_text(item)
    };
    html! {
        input type="hidden" name="digest" value=(item.digest);
        @if request.votes.is_none() {
            details.inline open[is_edited] {
                summary { "Edit the arguments" }
                label.hidden for={ (id) "-args" } { "Arguments as JSON" }
                textarea id={ (id) "-args" } name="args" rows="8" spellcheck="false" { (text) }
            }
        }
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
    let (Some(text), Some(item)) = (fields.get_text("args"), request.items.first()) else {
        return Ok(None);
    };
    if is_requested(item, text) {
        return Ok(None);
    }
    let edited: Value = serde_json::from_str(text)?;
    Ok((edited != item.args).then_some(edited))
}

fn args_text(item: &ApprovalItem) -> String {
    json_text(&item.args)
}

fn json_text(args: &Value) -> String {
    serde_json::to_string_pretty(args).unwrap_or_default()
}

/// A browser sends lines with CRLF.
fn is_requested(item: &ApprovalItem, text: &str) -> bool {
    text.replace("\r\n", "\n").trim() == args_text(item).trim()
}
