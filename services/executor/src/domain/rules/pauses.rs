//! What stops a run and lets it go on: pause, resume, cancel, and time.

use std::time::Duration;

use chrono::{DateTime, Utc};
use holdpoint_contracts::duration::describe;
use holdpoint_contracts::executor::{PauseWaiting, TimerReply};
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::instant;
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::run::{
    ActionResult, Failure, FailureClass, PauseScope, PausedBy, ResumeMode,
};
use holdpoint_ids::HoldId;
use serde_json::json;

use crate::domain::effect::{Effect, Reply};
use crate::domain::refusal::{REASON_CHARS_MAX, Refusal};
use crate::domain::run::people::Clock;
use crate::domain::run::{Hold, INCIDENTS_MAX, Phase, StepPhase, Timer, after, millis_between};

use super::transition::{RowData, RunTransition};
use super::{advance, follow, stale_timer, uncertain};
use crate::domain::decision::{Decision, Outcome, Undecided};

pub(super) fn unchanged(transition: &RunTransition<'_>) -> Outcome {
    // The version rose only in the making; nothing of this turn is kept.
    let mut run = transition.run.clone();
    run.version -= 1;
    Outcome::Unchanged(Reply::Changed(Box::new(run.changed(false, transition.now))))
}

fn refuse_final(transition: &RunTransition<'_>) -> Result<(), Undecided> {
    if transition.run.is_final() {
        return Err(Undecided::Refused(Refusal::RunFinal(
            transition.run.id,
            transition.run.status(),
        )));
    }
    Ok(())
}

/// Freezes the run (S0-AC4): its timers are cleared and what was left of them is kept; queued
/// steps do not start; running ones finish and are kept.
///
/// A caller who wants no waiting run cancels one that waits, as a pause of its agent would (S0-T6.3).
pub(super) fn pause(
    mut transition: RunTransition<'_>,
    by: &Actor,
    waiting: PauseWaiting,
) -> Decision {
    refuse_final(&transition)?;
    uncertain::prepare(&transition, &[])?;
    if waiting == PauseWaiting::Cancel && follow::waits(transition.run.status()) {
        follow::cancel(&mut transition, PauseScope::Run, by);
        return transition.changed();
    }
    if transition
        .run
        .pauses
        .iter()
        .any(|pause| pause.scope == PauseScope::Run)
    {
        return Ok(unchanged(&transition));
    }
    stand(&mut transition, PauseScope::Run, by);
    transition.changed()
}

/// One pause more: clocks stop at the turn's instant.
pub(super) fn stand(transition: &mut RunTransition<'_>, scope: PauseScope, by: &Actor) {
    let in_flight = transition
        .run
        .steps
        .iter()
        .filter(|step| matches!(step.phase, StepPhase::Working(_)))
        .map(|step| step.id.clone())
        .collect();
    stop_waits(transition);
    let now = transition.now;
    transition.run.people_mut().for_each(|on| on.freeze(now));
    let pause = PausedBy {
        scope,
        by: by.0.clone(),
        at: transition.now,
        in_flight,
    };
    transition.run.pauses.push(pause);
    let message = transition.run.message(transition.now);
    let data = json!({ "scope": scope, "by": by });
    transition.event(EventType::RunPaused, None, message, data);
}

/// Stops the timers of all waits; what is left of them is kept.
pub(super) fn stop_waits(transition: &mut RunTransition<'_>) {
    for index in 0..transition.run.steps.len() {
        freeze(transition, index);
    }
}

/// Lets the waits go on that stood while a person owned the run, each with what was left of it. A pause
/// still holds them (C-13).
pub(super) fn go_on_waits(transition: &mut RunTransition<'_>) {
    if transition.run.is_final()
        || transition.run.taken().is_some()
        || !transition.run.pauses.is_empty()
    {
        return;
    }
    for index in thaw_waits(transition, transition.resume_mode) {
        end_wait(transition, index);
    }
}

/// Sets the timers of frozen waits again; those of which nothing is left are returned.
fn thaw_waits(transition: &mut RunTransition<'_>, mode: ResumeMode) -> Vec<usize> {
    let mut elapsed = Vec::new();
    for index in 0..transition.run.steps.len() {
        if let Some(StepPhase::Waiting(hold)) =
            transition.step(index).map(|step| step.phase.clone())
            && !thaw(transition, index, &hold, mode)
        {
            elapsed.push(index);
        }
    }
    elapsed
}

fn freeze(transition: &mut RunTransition<'_>, index: usize) {
    let (now, rev, workspace) = (
        transition.now,
        transition.run.version,
        transition.run.workspace.clone(),
    );
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
        // A pause of many may be older than a timer that another replica set meanwhile.
        remaining_ms: millis_between(now.max(at), due),
        due,
    };
    let hold = hold.id;
    transition.effect(Effect::Timer {
        workspace,
        hold,
        rev,
        due: None,
    });
}

/// Lifts the run's own pause; once none is left, waits go on by `mode` and steps start again.
pub(super) fn resume(mut transition: RunTransition<'_>, by: &Actor, mode: ResumeMode) -> Decision {
    refuse_final(&transition)?;
    let own = |pause: &PausedBy| pause.scope == PauseScope::Run;
    // What was paused with its agent or workspace is resumed with it.
    if !transition.run.pauses.iter().any(own) {
        return Ok(unchanged(&transition));
    }
    uncertain::prepare(&transition, &[])?;
    transition
        .run
        .pauses
        .retain(|pause| pause.scope != PauseScope::Run);
    if transition.run.pauses.is_empty() {
        thaw_holds(&mut transition, by, mode);
        requeue(&mut transition);
        uncertain::apply_answers(&mut transition)?;
        advance::advance(&mut transition)?;
    }
    transition.changed()
}

/// Sets the timers of frozen waits again, counted from the turn's instant, and ends the waits of
/// which nothing is left.
pub(super) fn thaw_holds(transition: &mut RunTransition<'_>, by: &Actor, mode: ResumeMode) {
    // While a person owns the run its waits stand, whatever is resumed. If that person has handed it back
    // during the pause, this decision goes on to apply that, and the waits still go on by `mode`.
    transition.resume_mode = mode;
    let elapsed = match transition.run.taken() {
        Some(_) => Vec::new(),
        None => thaw_waits(transition, mode),
    };
    let now = transition.now;
    for on in transition.run.people_mut() {
        if let Clock::Frozen { remaining_ms, due } = on.clock {
            let due = match mode {
                // Only time ends by `now`: people keep what was left to them.
                ResumeMode::Continue | ResumeMode::Now => after(now, remaining_ms),
                ResumeMode::KeepDeadline => due,
                ResumeMode::Restart => after(now, on.length_ms.unwrap_or(remaining_ms)),
            };
            on.thaw(due);
        }
    }
    let left = transition
        .run
        .resume_at()
        .map(|due| millis_between(transition.now, due));
    let message = match left {
        Some(ms) => {
            let left = describe(Duration::from_millis(ms));
            format!("Resumed by {by}; will go on in {left}.")
        }
        None => format!("Resumed by {by}."),
    };
    let data = json!({ "by": by, "mode": mode, "resume_at": transition.run.resume_at().map(instant::write) });
    transition.event(EventType::RunResumed, None, message, data);
    for index in elapsed {
        end_wait(transition, index);
    }
}

/// The dispatches of a run that stood still may have been dropped meanwhile. As if their turn came
/// now: the higher number fences the old dispatch off, and condition and arguments see the world
/// as it is after the pause.
pub(super) fn requeue(transition: &mut RunTransition<'_>) {
    for step in &mut transition.run.steps {
        if matches!(step.phase, StepPhase::Queued(_)) {
            step.phase = StepPhase::Planned;
        }
    }
}

/// Sets a frozen hold's timer again; false if nothing of the wait is left.
fn thaw(transition: &mut RunTransition<'_>, index: usize, hold: &Hold, mode: ResumeMode) -> bool {
    let Timer::Frozen {
        remaining_ms,
        due: before,
    } = hold.timer
    else {
        return true;
    };
    let due = match mode {
        ResumeMode::Continue => after(transition.now, remaining_ms),
        ResumeMode::KeepDeadline => before,
        ResumeMode::Restart => after(transition.now, hold.length_ms),
        ResumeMode::Now => transition.now,
    };
    if due <= transition.now {
        return false;
    }
    let timer = Timer::Set {
        rev: transition.run.version,
        at: transition.now,
        due,
    };
    set_timer(transition, index, hold, timer, due);
    true
}

fn set_timer(
    transition: &mut RunTransition<'_>,
    index: usize,
    hold: &Hold,
    timer: Timer,
    due: DateTime<Utc>,
) {
    let (rev, workspace) = (transition.run.version, transition.run.workspace.clone());
    if let Some(step) = transition.step_mut(index) {
        step.phase = StepPhase::Waiting(Hold {
            timer,
            ..hold.clone()
        });
    }
    transition.effect(Effect::Timer {
        workspace,
        hold: hold.id,
        rev,
        due: Some(due),
    });
}

/// Whether an incident is news: once a reason.
pub(super) fn note_incident(transition: &mut RunTransition<'_>, reason: &str) -> bool {
    let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
    let is_known = transition.run.incidents.contains(&reason);
    if is_known || transition.run.is_final() || transition.run.incidents.len() >= INCIDENTS_MAX {
        return false;
    }
    transition.run.incidents.push(reason);
    true
}

/// A message about the run lies among the dead letters: its history says so, once a reason.
pub(super) fn incident(mut transition: RunTransition<'_>, reason: &str) -> Decision {
    if !note_incident(&mut transition, reason) {
        return Ok(Outcome::Unchanged(Reply::Nothing(())));
    }
    let reason = transition.run.incidents.last();
    let message = "A message about this run could not be handled and lies among the dead letters.";
    let data = json!({ "reason": reason });
    transition.event(EventType::RunIncident, None, message.to_owned(), data);
    transition.decided(Reply::Nothing(()))
}

/// Ends the run for good (S2-R13).
pub(super) fn cancel(
    mut transition: RunTransition<'_>,
    by: &Actor,
    reason: Option<&str>,
) -> Decision {
    if matches!(transition.run.phase, Phase::Cancelled { .. }) {
        return Ok(unchanged(&transition));
    }
    refuse_final(&transition)?;
    if reason.is_some_and(|reason| reason.chars().count() > REASON_CHARS_MAX) {
        return Err(Undecided::Refused(Refusal::ReasonTooLong));
    }
    let message = match reason {
        Some(reason) => format!("Cancelled by {by}: {reason}"),
        None => format!("Cancelled by {by}."),
    };
    let failure = Failure {
        class: FailureClass::Cancelled,
        code: "cancelled".to_owned(),
        message: message.clone(),
    };
    transition.ended_by = Some(by.to_string());
    transition.end(Phase::Cancelled {
        at: transition.now,
        failure,
    });
    let data = json!({ "by": by, "reason": reason });
    transition.event(EventType::RunCancelled, None, message, data);
    transition.changed()
}

/// A timer is due (S0-AC2). One that was moved, frozen or cleared meanwhile changes nothing: the
/// due time in the database decides, the bus is the wake-up.
pub(super) fn timer_fired(mut transition: RunTransition<'_>, hold: HoldId, rev: u64) -> Decision {
    let waiting = transition.run.holds().find(|(_, open)| open.id == hold);
    let is_current = waiting.is_some_and(|(_, open)| match open.timer {
        Timer::Set { rev: set, .. } => set == rev,
        Timer::Frozen { .. } => false,
    });
    let Some(index) = waiting.filter(|_| is_current).and_then(|(step, _)| {
        transition
            .run
            .steps
            .iter()
            .position(|one| one.id == step.id)
    }) else {
        return Ok(stale_timer());
    };
    let step = transition.step(index).map(|step| step.id.clone());
    transition.event(
        EventType::RunResumed,
        step.as_deref(),
        "The wait is over; going on.".to_owned(),
        json!({ "hold": hold, "by": "timer" }),
    );
    end_wait(&mut transition, index);
    advance::advance(&mut transition)?;
    transition.decided(Reply::Timer(TimerReply::Applied))
}

fn end_wait(transition: &mut RunTransition<'_>, index: usize) {
    let now = transition.now;
    let Some(step) = transition.step_mut(index) else {
        return;
    };
    let StepPhase::Waiting(hold) = &step.phase else {
        return;
    };
    let waited_ms = millis_between(hold.since, now);
    step.phase = StepPhase::Completed { at: now };
    let id = step.id.clone();
    let data = json!({ "waited_ms": waited_ms, "resumed_at": instant::write(now) });
    let response = ActionResult {
        success: true,
        description: format!("Waited {}.", describe(Duration::from_millis(waited_ms))),
        error: None,
        data: data.clone(),
        duration_ms: waited_ms,
    };
    let row = RowData {
        response: Some(response),
        ..RowData::default()
    };
    transition.row(index, row);
    transition.value(id, data);
}
