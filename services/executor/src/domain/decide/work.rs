//! What workers ask and report. Everything they send carries the number of the hand-out.

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::run::ActionResult;
use holdpoint_contracts::steps::{Grant, ResultAnswer};
use holdpoint_ids::NodeName;
use serde_json::json;

use crate::domain::effect::Answer;
use crate::domain::run::{Handed, LATE_RESULTS_MAX, StepPhase, Working, millis_between};

use super::turn::{RowData, Stop, Turn};
use super::{Verdict, advance, granted, known_result};

/// Longest failure text that a run keeps, in characters; the step's response has all of it.
const ERROR_CHARS_MAX: usize = 2_000;

/// What a worker reports.
pub(super) struct Report<'r> {
    pub(super) node: &'r NodeName,
    pub(super) step: &'r str,
    pub(super) dispatch: u64,
    pub(super) result: &'r ActionResult,
    pub(super) error_code: &'r Option<String>,
}

/// Answers a worker that wants to start a delivered step. `go` is a committed row.
pub(super) fn start(
    mut turn: Turn<'_>,
    node: &NodeName,
    step: &str,
    dispatch: u64,
    delivery: u64,
) -> Result<Verdict, Stop> {
    let index = turn.position(step)?;
    let Some(current) = turn.step(index).filter(|step| step.dispatch == dispatch) else {
        return Ok(granted(Grant::Drop));
    };
    let again = |handed: &Handed, turn: &Turn<'_>| Working {
        handed: handed.clone(),
        node: node.clone(),
        delivery,
        since: turn.now,
    };
    let (phase, grant) = match &current.phase {
        // Paused: it is handed out anew on resume.
        StepPhase::Queued(_) if !turn.run.moves() => return Ok(granted(Grant::Drop)),
        StepPhase::Queued(handed) => (StepPhase::Working(again(handed, &turn)), Grant::Go),
        // The answer to its first request was lost on the way; a pause since then lets it finish.
        StepPhase::Working(held) if held.node == *node && held.delivery == delivery => {
            return Ok(granted(Grant::Go));
        }
        // Its worker is gone and nothing starts while paused: queued, so that resume hands it out.
        StepPhase::Working(held) if held.handed.idempotent && !turn.run.moves() => {
            (StepPhase::Queued(held.handed.clone()), Grant::Drop)
        }
        StepPhase::Working(held) if held.handed.idempotent => {
            (StepPhase::Working(again(&held.handed, &turn)), Grant::Go)
        }
        StepPhase::Working(held) => (StepPhase::Uncertain(held.clone()), Grant::Uncertain),
        StepPhase::Uncertain(_) => return Ok(granted(Grant::Uncertain)),
        StepPhase::Planned
        | StepPhase::Waiting(_)
        | StepPhase::Completed { .. }
        | StepPhase::Failed { .. }
        | StepPhase::Skipped { .. }
        | StepPhase::Cancelled { .. } => return Ok(granted(Grant::Drop)),
    };
    let queued_ms = match (&current.phase, grant) {
        (StepPhase::Queued(handed), Grant::Go) => millis_between(handed.at, turn.now),
        _ => 0,
    };
    turn.run.clocks.queued_ms += queued_ms;
    if let Some(step) = turn.step_mut(index) {
        step.phase = phase;
    }
    turn.row(index, RowData::default());
    if grant == Grant::Uncertain {
        turn.event(
            EventType::RunAwaitingInput,
            Some(step),
            format!(
                "{step} may have happened: its worker was granted the start and never reported."
            ),
            json!({ "reason": "uncertain", "dispatch": dispatch, "questions": [] }),
        );
    }
    Ok(turn.decided(Answer::Grant(grant)))
}

/// Applies a result once; one that comes too late is kept as evidence.
pub(super) fn report(mut turn: Turn<'_>, report: &Report<'_>) -> Result<Verdict, Stop> {
    let index = turn.position(report.step)?;
    let Some(step) = turn.step(index) else {
        return Ok(known_result());
    };
    let is_current = step.dispatch == report.dispatch;
    let queued = match &step.phase {
        StepPhase::Queued(handed) => Some(handed.at),
        StepPhase::Working(_) | StepPhase::Uncertain(_) => None,
        StepPhase::Completed { .. } | StepPhase::Failed { .. } if is_current => {
            return Ok(known_result());
        }
        StepPhase::Planned
        | StepPhase::Waiting(_)
        | StepPhase::Completed { .. }
        | StepPhase::Failed { .. }
        | StepPhase::Skipped { .. }
        | StepPhase::Cancelled { .. } => return Ok(late(turn, index, report)),
    };
    if !is_current || turn.run.is_final() {
        return Ok(late(turn, index, report));
    }
    // It had begun before the pause could stop it: it counts as running at that time.
    if queued.is_some() {
        for pause in &mut turn.run.pauses {
            if !pause.in_flight.iter().any(|step| step == report.step) {
                pause.in_flight.push(report.step.to_owned());
            }
        }
    }
    let took = report.result.duration_ms;
    turn.run.clocks.active_ms += took;
    if let Some(at) = queued {
        turn.run.clocks.queued_ms += millis_between(at, turn.now).saturating_sub(took);
    }
    apply(&mut turn, index, report)?;
    Ok(turn.decided(Answer::Result(ResultAnswer::Applied)))
}

fn apply(turn: &mut Turn<'_>, index: usize, report: &Report<'_>) -> Result<(), Stop> {
    let result = report.result;
    if !result.success {
        let code = report.error_code.as_deref().unwrap_or("failed");
        let message = result.error.as_deref().unwrap_or(&result.description);
        let message: String = message.chars().take(ERROR_CHARS_MAX).collect();
        advance::fail_step(turn, index, code, &message, Some(result.clone()));
        return Ok(());
    }
    let now = turn.now;
    if let Some(step) = turn.step_mut(index) {
        step.phase = StepPhase::Completed { at: now };
    }
    turn.row(
        index,
        RowData {
            response: Some(result.clone()),
            ..RowData::default()
        },
    );
    turn.value(report.step.to_owned(), result.data.clone());
    turn.event(
        EventType::StepSucceeded,
        Some(report.step),
        result.description.clone(),
        json!({ "duration_ms": result.duration_ms, "node": report.node }),
    );
    advance::advance(turn)
}

/// Keeps what a fenced-off worker reports, once a hand-out, and changes nothing else.
fn late(mut turn: Turn<'_>, index: usize, report: &Report<'_>) -> Verdict {
    let Some(step) = turn.step_mut(index) else {
        return known_result();
    };
    if step.late.contains(&report.dispatch) || step.late.len() >= LATE_RESULTS_MAX {
        return Verdict::Unchanged(Answer::Result(ResultAnswer::Late));
    }
    step.late.push(report.dispatch);
    turn.event(
        EventType::StepLateResult,
        Some(report.step),
        format!(
            "A result of hand-out {} came too late and is not applied.",
            report.dispatch
        ),
        json!({
            "dispatch": report.dispatch,
            "node": report.node,
            "result": report.result,
            "error_code": report.error_code,
        }),
    );
    turn.decided(Answer::Result(ResultAnswer::Late))
}
