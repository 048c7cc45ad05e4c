//! The names an agent may use: known, still to come, and the nearest of them to a typo.
//!
//! Owns these lists and the wording of "not yet". It must never accept a name silently.

use holdpoint_contracts::problem::FieldError;
use holdpoint_ids::nearest;

use super::diagnostics::shown;
use crate::domain::expression::diagnostic;

const AGENT: [&str; 11] = [
    "agent",
    "description",
    "on_pause",
    "inputs",
    "ask_missing_inputs",
    "limits",
    "calendar",
    "templates",
    "instructions",
    "steps",
    "planner",
];
const STEP: [&str; 18] = [
    "id",
    "tool",
    "args",
    "wait",
    "wait_for",
    "ask",
    "handoff",
    "run",
    "finish",
    "when",
    "needs",
    "claim_timeout",
    "approval",
    "retry",
    "timeout",
    "on_error",
    "for_each",
    "parallel",
];
const STEP_LATER: [&str; 1] = ["delegate"];
/// Kinds of step that are documented and that this release does not have.
const KINDS_LATER: [&str; 1] = ["delegate"];

/// What is wrong with a field name of the agent, if anything is.
pub(super) fn agent_field(name: &str) -> Option<FieldError> {
    field(name, "An agent", &AGENT, &[])
}

/// What is wrong with a field name of a step, if anything is.
pub(super) fn step_field(name: &str) -> Option<FieldError> {
    field(name, "A step", &STEP, &STEP_LATER)
}

/// What is wrong with a field name inside an `ask` or a `handoff`, if anything is.
pub(super) fn inner_field(name: &str, kind: &str, known: &[&'static str]) -> Option<FieldError> {
    field(name, &format!("`{kind}`"), known, &[])
}

/// Whether a field is a kind of step that this release does not have.
pub(super) fn is_later_kind(name: &str) -> bool {
    KINDS_LATER.contains(&name)
}

fn field(
    name: &str,
    owner: &str,
    known: &[&'static str],
    later: &[&'static str],
) -> Option<FieldError> {
    if known.contains(&name) {
        return None;
    }
    if later.contains(&name) {
        let message = format!("This release does not have `{name}` yet.");
        return Some(diagnostic(name, message));
    }
    let all = known.iter().chain(later).copied();
    let shown_name = shown(&name.into());
    let said = format!(
        "{owner} has no field `{shown_name}`; this release knows {}.",
        list(known)
    );
    Some(FieldError {
        nearest: nearest(name, all),
        ..diagnostic(&shown_name, said)
    })
}

fn list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}
