//! How a step begins to wait for time (S0-AC1). [`timers`](super::timers) says how such a wait stops and ends.

use std::time::Duration;

use chrono::{DateTime, Utc};
use holdpoint_calendar::WorkingDays;
use holdpoint_contracts::duration::describe;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::instant;
use serde_json::{Value, json};

use crate::domain::model::plan::wait_until::WaitUntil;
use crate::domain::model::run::{Hold, StepPhase, Timer};
use crate::domain::model::time::{after, millis_between};
use crate::domain::rules::fail_step::fail_step;
use crate::domain::rules::open_hold::next_hold_id;
use crate::domain::rules::wait_end::wait_end;
use crate::domain::step_response::success;
use crate::domain::transition::{RowData, RunTransition};

/// Opens a timer hold of a fixed length.
pub(crate) fn start_wait(transition: &mut RunTransition<'_>, index: usize, length_ms: u64) {
    let due = after(transition.now, length_ms);
    open_wait(transition, index, due, false);
}

/// Opens a timer hold until an instant of the calendar. One that has passed completes the step at once.
pub(crate) fn start_wait_until(
    transition: &mut RunTransition<'_>,
    index: usize,
    wait: &WaitUntil,
    working_days: &WorkingDays,
    resolved: &Value,
) {
    match wait_end(wait, working_days, resolved, transition.now) {
        Err((code, message)) => fail_step(transition, index, code, &message, None),
        Ok(end) if end <= transition.now => complete_at_once(transition, index),
        Ok(end) => open_wait(transition, index, end, true),
    }
}

fn complete_at_once(transition: &mut RunTransition<'_>, index: usize) {
    let now = transition.now;
    let data = json!({ "waited_ms": 0, "resumed_at": instant::write(now) });
    let response = success("The time has passed already.".to_owned(), data.clone(), 0);
    let phase = StepPhase::Completed { at: now };
    if let Some(id) = transition.set_phase(index, phase, RowData::response(response)) {
        transition.value(id, data);
    }
}

/// Its timer is the waker.
fn open_wait(
    transition: &mut RunTransition<'_>,
    index: usize,
    due: DateTime<Utc>,
    keeps_due: bool,
) {
    let (now, rev) = (transition.now, transition.run.version);
    let id = next_hold_id(&mut transition.run);
    let length_ms = millis_between(now, due);
    let phase = StepPhase::Waiting(Hold {
        id,
        since: now,
        length_ms,
        timer: Timer::Set { rev, at: now, due },
        backoff: None,
        signal: None,
        child_runs: None,
        keeps_due,
    });
    // The response that every action returns (S0-R5): a wait says when it will end.
    let response = success(
        format!("Waiting {}.", describe(Duration::from_millis(length_ms))),
        json!({ "scheduled": true, "resume_at": instant::write(due) }),
        0,
    );
    let Some(step) = transition.set_phase(index, phase, RowData::response(response)) else {
        return;
    };
    transition.timer(id, Some(due));
    transition.event(
        EventType::RunWaiting,
        Some(&step),
        will_resume(length_ms),
        json!({ "hold": id, "kind": "timer", "resume_at": instant::write(due), "duration_ms": length_ms }),
    );
}

/// The literal text of S0-AC1.
fn will_resume(ms: u64) -> String {
    format!(
        "Agent paused. Will resume in {}.",
        describe(Duration::from_millis(ms))
    )
}
