//! The names an agent may use: known, still to come, and the nearest of them to a typo.
//!
//! Owns these lists and the wording of "not yet". It must never accept a name silently.

use super::plain;
use crate::domain::expression::Diagnostic;

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
        ..plain(&super::shown(&name.into()), &said)
    })
}

fn list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

/// At most three of the names that differ from `written` by a typo, best first.
pub(crate) fn nearest<'n>(written: &str, names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let written = written.to_lowercase();
    let length = written.chars().count();
    if length > super::MAX_NAME {
        return Vec::new();
    }
    let allowed = (length / 3).clamp(1, 3);
    let mut near: Vec<(usize, &str)> = names
        .filter(|name| name.chars().count().abs_diff(length) <= allowed)
        .map(|name| (distance(&written, &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= allowed)
        .collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter()
        .take(3)
        .map(|(_, name)| name.to_owned())
        .collect()
}

/// Insertions, deletions, replacements and swaps of neighbours between two texts.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut two_back: Vec<usize> = Vec::new();
    let mut back: Vec<usize> = (0..=right.len()).collect();
    let mut previous = None;
    for (row, l) in left.chars().enumerate() {
        let mut now = vec![row + 1];
        for (column, r) in right.iter().enumerate() {
            let cell =
                |cells: &[usize], at: usize| cells.get(at).copied().unwrap_or(usize::MAX / 2);
            let replaced = cell(&back, column) + usize::from(l != *r);
            let mut best = replaced
                .min(cell(&back, column + 1) + 1)
                .min(cell(&now, column) + 1);
            let before = column
                .checked_sub(1)
                .and_then(|at| Some((at, right.get(at)?)));
            if let Some((at, before)) = before
                && previous == Some(*r)
                && l == *before
            {
                best = best.min(cell(&two_back, at) + 1);
            }
            now.push(best);
        }
        previous = Some(l);
        two_back = std::mem::replace(&mut back, now);
    }
    back.last().copied().unwrap_or(0)
}
