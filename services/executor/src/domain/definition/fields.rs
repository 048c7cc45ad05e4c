//! The names an agent may use: known, still to come, and the nearest of them to a typo.
//!
//! Owns these lists and the wording of "not yet". It must never accept a name silently.

use super::diagnostics::{plain, shown};
use crate::domain::expression::Diagnostic;
use crate::domain::nearest_names::nearest;

const AGENT: [&str; 6] = [
    "agent",
    "description",
    "on_pause",
    "inputs",
    "ask_missing_inputs",
    "steps",
];
const AGENT_LATER: [&str; 2] = ["instructions", "planner"];
const STEP: [&str; 9] = [
    "id",
    "tool",
    "args",
    "wait",
    "ask",
    "handoff",
    "when",
    "needs",
    "claim_timeout",
];
const STEP_LATER: [&str; 9] = [
    "wait_for", "delegate", "run", "finish", "for_each", "retry", "timeout", "on_error", "approval",
];
/// Kinds of step that are documented and that this release does not have.
const KINDS_LATER: [&str; 4] = ["wait_for", "delegate", "run", "finish"];

/// What is wrong with a field name of the agent, if anything is.
pub(super) fn agent_field(name: &str) -> Option<Diagnostic> {
    field(name, "An agent", &AGENT, &AGENT_LATER)
}

/// What is wrong with a field name of a step, if anything is.
pub(super) fn step_field(name: &str) -> Option<Diagnostic> {
    field(name, "A step", &STEP, &STEP_LATER)
}

/// What is wrong with a field name inside an `ask` or a `handoff`, if anything is.
pub(super) fn inner_field(name: &str, kind: &str, known: &[&'static str]) -> Option<Diagnostic> {
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
) -> Option<Diagnostic> {
    if known.contains(&name) {
        return None;
    }
    if later.contains(&name) {
        return Some(plain(
            name,
            &format!("This release does not have `{name}` yet."),
        ));
    }
    let all = known.iter().chain(later).copied();
    let said = format!(
        "{owner} has no field `{name}`; this release knows {}.",
        list(known)
    );
    Some(Diagnostic {
        nearest: nearest(name, all),
        ..plain(&shown(&name.into()), &said)
    })
}

fn list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}
