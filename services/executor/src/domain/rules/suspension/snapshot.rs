//! The executor's part of a snapshot (S1-R2, S1-R9).

use std::collections::BTreeMap;

use holdpoint_contracts::run::StepStatus;
use holdpoint_contracts::size::json_bytes;
use holdpoint_contracts::suspension::{
    SNAPSHOT_INLINE_MAX, Snapshot, ToolCallView, ValueReference,
};
use serde_json::{Value, json};

use crate::domain::decision::{Lookup, Undecided};
use crate::domain::model::run::{Run, Step, StepPhase};
use crate::domain::model::step_row::StepRow;
use crate::domain::need::{Fact, Need};
use crate::domain::transition::RunTransition;

/// Calls that a snapshot keeps, the newest.
pub const TOOL_CALLS_MAX: usize = 100;

/// Most bytes of requests and responses that the calls of one snapshot keep inline.
const TOOL_CALLS_BYTES_MAX: usize = 256 * 1024;

/// A value, or a reference to it if it is larger than a value of a snapshot, or than what is `left`.
pub(crate) fn inline_or_reference(value: Value, left: &mut usize) -> Value {
    let bytes = json_bytes(&value);
    match left.checked_sub(bytes) {
        Some(rest) if bytes <= SNAPSHOT_INLINE_MAX => {
            *left = rest;
            value
        }
        Some(_) | None => json!(ValueReference::of(&value)),
    }
}

/// The calls of a step, oldest first: its failed attempts, and its newest one. A step without an attempt has called
/// nothing; the end of a run fences it, so its dispatch says nothing. The row of one that waits for an approval describes
/// the call that is asked for.
#[must_use]
pub fn calls_of_row(row: StepRow) -> Vec<ToolCallView> {
    let request = row.shown_request();
    let Some(tool) = row.tool.filter(|_| row.attempts > 0) else {
        return Vec::new();
    };
    let is_asked = row.status == StepStatus::WaitingConfirm;
    let mut left = usize::MAX;
    let newest = ToolCallView {
        step: row.step,
        tool,
        dispatch: row.dispatch,
        attempt: row.attempts,
        status: row.status,
        node: row.claimed_by,
        request: inline_or_reference(request.unwrap_or_default(), &mut left),
        response: inline_or_reference(json!(row.response), &mut left),
        error_code: row.error_code,
        started_at: row.started_at,
        ended_at: row.ended_at,
    };
    let failed = row.failed_attempts.into_iter();
    let failed = failed.filter(|failed| is_asked || failed.dispatch < newest.dispatch);
    let failed = failed.map(|failed| ToolCallView {
        attempt: failed.attempt,
        dispatch: failed.dispatch,
        status: StepStatus::Failed,
        node: None,
        request: Value::Null,
        response: json!(failed.response),
        error_code: Some(failed.error_code),
        started_at: None,
        ended_at: Some(failed.at),
        ..newest.clone()
    });
    let mut calls: Vec<_> = failed.collect();
    if !is_asked {
        calls.push(newest);
    }
    calls
}

/// The newest calls of a run, oldest first, with as much of their values as a snapshot keeps.
#[must_use]
pub fn bounded_calls(mut calls: Vec<ToolCallView>) -> Vec<ToolCallView> {
    calls.sort_by_key(|call| (call.started_at.or(call.ended_at), call.dispatch));
    let surplus = calls.len().saturating_sub(TOOL_CALLS_MAX);
    calls.drain(..surplus);
    let mut left = TOOL_CALLS_BYTES_MAX;
    // The newest calls keep their values.
    for call in calls.iter_mut().rev() {
        for value in [&mut call.request, &mut call.response] {
            *value = inline_or_reference(std::mem::take(value), &mut left);
        }
    }
    calls
}

/// Loads the calls of a run, with the present status of their steps.
pub(crate) fn load_tool_calls(
    transition: &RunTransition<'_>,
) -> Result<Vec<ToolCallView>, Undecided> {
    let need = Need::ToolCalls(transition.run.id);
    let mut calls = match transition.lookup(&need) {
        Lookup::NotLoaded => return Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(Fact::ToolCalls(calls)) => (*calls).clone(),
        Lookup::Missing | Lookup::Found(_) => Vec::new(),
    };
    for call in &mut calls {
        let mut steps = transition.run.steps.iter();
        let current = steps.find(|step| step.id == call.step && step.dispatch == call.dispatch);
        if let Some(current) = current {
            call.status = current.phase.status();
        }
    }
    Ok(calls)
}

/// A snapshot without the parts of the workers.
pub(crate) fn snapshot_of(run: &Run, reason: &str, tool_calls: Vec<ToolCallView>) -> Snapshot {
    Snapshot {
        reason: reason.to_owned(),
        auto_resumable: false,
        current_step: current_step(run),
        tool_calls,
        write_buffer: Value::Null,
        checkpoint: Value::Null,
        sandbox: None,
        other_steps: BTreeMap::new(),
    }
}

/// The first step that a worker has, else the first that waits, else the next one.
fn current_step(run: &Run) -> Option<String> {
    let first = |is: fn(&Step) -> bool| run.steps.iter().find(|step| is(step));
    let at_worker = first(|step| matches!(step.phase, StepPhase::Granted(_)));
    let begun =
        || first(|step| !step.phase.is_settled() && !matches!(step.phase, StepPhase::Planned));
    let next = || first(|step| !step.phase.is_settled());
    let step = at_worker.or_else(begun).or_else(next)?;
    Some(step.id.clone())
}
