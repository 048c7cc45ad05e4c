//! The timers of waits: how they stop, run again, and end.

use std::time::Duration;

use holdpoint_contracts::duration::describe;
use holdpoint_contracts::instant;
use holdpoint_contracts::run::ResumeMode;
use serde_json::json;

use crate::domain::model::run::{Hold, Step, StepPhase, Timer};
use crate::domain::model::time::{after, millis_between};
use crate::domain::rules::run_steps::time_out_runs;
use crate::domain::rules::signals::time_out_signal;
use crate::domain::step_response::success;
use crate::domain::transition::{RowData, RunTransition};

/// Stops the timers of all waits and keeps their remaining time.
pub(crate) fn freeze_timers(transition: &mut RunTransition<'_>) {
    for index in 0..transition.run.steps.len() {
        freeze_timer(transition, index);
    }
}

/// Continues the waits that were frozen while a person owned the run, with their remaining time. A pause
/// keeps them frozen (C-13).
pub(crate) fn continue_waits(transition: &mut RunTransition<'_>) {
    if transition.run.is_final()
        || transition.run.taken().is_some()
        || !transition.run.pauses.is_empty()
    {
        return;
    }
    for index in thaw_timers(transition, ResumeMode::Continue) {
        end_wait(transition, index);
    }
}

/// Sets the timers of frozen waits, and returns the waits that have no time left.
pub(crate) fn thaw_timers(transition: &mut RunTransition<'_>, mode: ResumeMode) -> Vec<usize> {
    let mut elapsed = Vec::new();
    for index in 0..transition.run.steps.len() {
        // Its recorded ends apply in this decision, and a timer of the same version could not be cleared.
        let runs = transition.step(index).and_then(Step::awaited_runs);
        if runs.is_some_and(|runs| runs.outcome().is_some()) {
            continue;
        }
        if let Some(StepPhase::Waiting(hold)) =
            transition.step(index).map(|step| step.phase.clone())
            && !thaw_timer(transition, index, &hold, mode)
        {
            elapsed.push(index);
        }
    }
    elapsed
}

fn freeze_timer(transition: &mut RunTransition<'_>, index: usize) {
    let now = transition.now;
    let Some(step) = transition.step_mut(index) else {
        return;
    };
    let StepPhase::Waiting(hold) = &mut step.phase else {
        return;
    };
    let Timer::Set { at, due, .. } = hold.timer else {
        return;
    };
    hold.timer = Timer::Frozen {
        // A pause of many may be older than a timer that another replica has set.
        remaining_ms: millis_between(now.max(at), due),
        due,
    };
    let hold = hold.id;
    transition.timer(hold, None);
}

/// Sets the timer of a frozen hold; false if it has no time left.
fn thaw_timer(
    transition: &mut RunTransition<'_>,
    index: usize,
    hold: &Hold,
    mode: ResumeMode,
) -> bool {
    let Timer::Frozen {
        remaining_ms,
        due: before,
    } = hold.timer
    else {
        return true;
    };
    let due = match mode {
        // `now` only ends waits: a signal and child runs keep their remaining time.
        ResumeMode::Now if hold.signal.is_some() || hold.child_runs.is_some() => {
            after(transition.now, remaining_ms)
        }
        ResumeMode::Now => transition.now,
        ResumeMode::KeepDeadline => before,
        ResumeMode::Continue | ResumeMode::Restart if hold.keeps_due => before,
        ResumeMode::Continue => after(transition.now, remaining_ms),
        ResumeMode::Restart => after(transition.now, hold.length_ms),
    };
    // The next attempt of a tool needs what only the timer loads, so it fires at once.
    let due = hold.backoff.map_or(due, |_| due.max(transition.now));
    if due <= transition.now && hold.backoff.is_none() {
        return false;
    }
    let timer = Timer::Set {
        rev: transition.run.version,
        at: transition.now,
        due,
    };
    if let Some(step) = transition.step_mut(index) {
        step.phase = StepPhase::Waiting(Hold {
            timer,
            ..hold.clone()
        });
    }
    transition.timer(hold.id, Some(due));
    true
}

pub(crate) fn end_wait(transition: &mut RunTransition<'_>, index: usize) {
    let now = transition.now;
    let step = transition.step(index);
    let Some(hold) = step.and_then(|step| step.phase.try_as_waiting_ref()) else {
        return;
    };
    if let Some(signal) = &hold.signal {
        let (hold, signal) = (hold.clone(), signal.clone());
        return time_out_signal(transition, index, &hold, &signal);
    }
    if let Some(on_timeout) = hold.child_runs {
        let hold = hold.clone();
        return time_out_runs(transition, index, &hold, on_timeout);
    }
    let waited_ms = millis_between(hold.since, now);
    let data = json!({ "waited_ms": waited_ms, "resumed_at": instant::write(now) });
    let response = success(
        format!("Waited {}.", describe(Duration::from_millis(waited_ms))),
        data.clone(),
        waited_ms,
    );
    let phase = StepPhase::Completed { at: now };
    if let Some(id) = transition.set_phase(index, phase, RowData::response(response)) {
        transition.value(id, data);
    }
}
