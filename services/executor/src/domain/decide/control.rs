//! What stops a run and lets it go on: pause, resume, cancel, and time.

use std::time::Duration;

use chrono::{DateTime, Utc};
use holdpoint_contracts::duration::describe;
use holdpoint_contracts::executor::{PauseWaiting, TimerAnswer};
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::instant;
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::run::{
    ActionResult, Failure, FailureClass, PauseScope, PausedBy, ResumeMode,
};
use holdpoint_ids::HoldId;
use serde_json::json;

use crate::domain::effect::{Answer, Effect};
use crate::domain::refusal::{REASON_CHARS_MAX, Refusal};
use crate::domain::run::people::Clock;
use crate::domain::run::{Alarm, Hold, INCIDENTS_MAX, Phase, StepPhase, after, millis_between};

use super::turn::{RowData, Stop, Turn};
use super::{Verdict, advance, follow, stale_timer, uncertain};

pub(super) fn unchanged(turn: &Turn<'_>) -> Verdict {
    // The version rose only in the making; nothing of this turn is kept.
    let mut run = turn.run.clone();
    run.version -= 1;
    Verdict::Unchanged(Answer::Changed(Box::new(run.changed(false, turn.now))))
}

fn refuse_final(turn: &Turn<'_>) -> Result<(), Stop> {
    if turn.run.is_final() {
        return Err(Stop::Refused(Refusal::RunFinal(
            turn.run.id,
            turn.run.status(),
        )));
    }
    Ok(())
}

/// Freezes the run (S0-AC4): its alarms are cleared and what was left of them is kept; queued
/// steps do not start; running ones finish and are kept.
///
/// A caller who wants no waiting run cancels one that waits, as a pause of its agent would (S0-T6.3).
pub(super) fn pause(
    mut turn: Turn<'_>,
    by: &Actor,
    waiting: PauseWaiting,
) -> Result<Verdict, Stop> {
    refuse_final(&turn)?;
    uncertain::prepare(&turn, &[])?;
    if waiting == PauseWaiting::Cancel && follow::waits(turn.run.status()) {
        follow::cancel(&mut turn, PauseScope::Run, by);
        return Ok(turn.changed());
    }
    if turn
        .run
        .pauses
        .iter()
        .any(|pause| pause.scope == PauseScope::Run)
    {
        return Ok(unchanged(&turn));
    }
    stand(&mut turn, PauseScope::Run, by);
    Ok(turn.changed())
}

/// One pause more: clocks stop at the turn's instant.
pub(super) fn stand(turn: &mut Turn<'_>, scope: PauseScope, by: &Actor) {
    let in_flight = turn
        .run
        .steps
        .iter()
        .filter(|step| matches!(step.phase, StepPhase::Working(_)))
        .map(|step| step.id.clone())
        .collect();
    stop_waits(turn);
    let now = turn.now;
    turn.run.people_mut().for_each(|on| on.freeze(now));
    let pause = PausedBy {
        scope,
        by: by.0.clone(),
        at: turn.now,
        in_flight,
    };
    turn.run.pauses.push(pause);
    let message = turn.run.message(turn.now);
    let data = json!({ "scope": scope, "by": by });
    turn.event(EventType::RunPaused, None, message, data);
}

/// Stops the timers of all waits; what is left of them is kept.
pub(super) fn stop_waits(turn: &mut Turn<'_>) {
    for index in 0..turn.run.steps.len() {
        freeze(turn, index);
    }
}

/// Lets the waits go on that stood while a person owned the run, each with what was left of it. A pause
/// still holds them (C-13).
pub(super) fn go_on_waits(turn: &mut Turn<'_>) {
    if turn.run.is_final() || turn.run.taken().is_some() || !turn.run.pauses.is_empty() {
        return;
    }
    for index in thaw_waits(turn, ResumeMode::Continue) {
        end_wait(turn, index);
    }
}

/// Sets the alarms of frozen waits again; those of which nothing is left are returned.
fn thaw_waits(turn: &mut Turn<'_>, mode: ResumeMode) -> Vec<usize> {
    let mut elapsed = Vec::new();
    for index in 0..turn.run.steps.len() {
        if let Some(StepPhase::Waiting(hold)) = turn.step(index).map(|step| step.phase.clone())
            && !thaw(turn, index, &hold, mode)
        {
            elapsed.push(index);
        }
    }
    elapsed
}

fn freeze(turn: &mut Turn<'_>, index: usize) {
    let (now, rev, workspace) = (turn.now, turn.run.version, turn.run.workspace.clone());
    let Some(step) = turn.step_mut(index) else {
        return;
    };
    let StepPhase::Waiting(hold) = &mut step.phase else {
        return;
    };
    let Alarm::Set { at, due, .. } = hold.alarm else {
        return;
    };
    hold.alarm = Alarm::Frozen {
        // A pause of many may be older than an alarm that another replica set meanwhile.
        remaining_ms: millis_between(now.max(at), due),
        due,
    };
    let hold = hold.id;
    turn.effect(Effect::Timer {
        workspace,
        hold,
        rev,
        due: None,
    });
}

/// Lifts the run's own pause; once none is left, waits go on by `mode` and steps start again.
pub(super) fn resume(mut turn: Turn<'_>, by: &Actor, mode: ResumeMode) -> Result<Verdict, Stop> {
    refuse_final(&turn)?;
    let own = |pause: &PausedBy| pause.scope == PauseScope::Run;
    // What was paused with its agent or workspace is resumed with it.
    if !turn.run.pauses.iter().any(own) {
        return Ok(unchanged(&turn));
    }
    uncertain::prepare(&turn, &[])?;
    turn.run
        .pauses
        .retain(|pause| pause.scope != PauseScope::Run);
    if turn.run.pauses.is_empty() {
        thaw_holds(&mut turn, by, mode);
        requeue(&mut turn);
        uncertain::apply_answers(&mut turn)?;
        advance::advance(&mut turn)?;
    }
    Ok(turn.changed())
}

/// Sets the alarms of frozen waits again, counted from the turn's instant, and ends the waits of
/// which nothing is left.
pub(super) fn thaw_holds(turn: &mut Turn<'_>, by: &Actor, mode: ResumeMode) {
    // While a person owns the run its waits stand, whatever is resumed.
    let elapsed = match turn.run.taken() {
        Some(_) => Vec::new(),
        None => thaw_waits(turn, mode),
    };
    let now = turn.now;
    for on in turn.run.people_mut() {
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
    let left = turn
        .run
        .resume_at()
        .map(|due| millis_between(turn.now, due));
    let message = match left {
        Some(ms) => {
            let left = describe(Duration::from_millis(ms));
            format!("Resumed by {by}; will go on in {left}.")
        }
        None => format!("Resumed by {by}."),
    };
    let data =
        json!({ "by": by, "mode": mode, "resume_at": turn.run.resume_at().map(instant::write) });
    turn.event(EventType::RunResumed, None, message, data);
    for index in elapsed {
        end_wait(turn, index);
    }
}

/// The hand-outs of a run that stood still may have been dropped meanwhile. As if their turn came
/// now: the higher number fences the old hand-out off, and condition and arguments see the world
/// as it is after the pause.
pub(super) fn requeue(turn: &mut Turn<'_>) {
    for step in &mut turn.run.steps {
        if matches!(step.phase, StepPhase::Queued(_)) {
            step.phase = StepPhase::Planned;
        }
    }
}

/// Sets a frozen hold's alarm again; false if nothing of the wait is left.
fn thaw(turn: &mut Turn<'_>, index: usize, hold: &Hold, mode: ResumeMode) -> bool {
    let Alarm::Frozen {
        remaining_ms,
        due: before,
    } = hold.alarm
    else {
        return true;
    };
    let due = match mode {
        ResumeMode::Continue => after(turn.now, remaining_ms),
        ResumeMode::KeepDeadline => before,
        ResumeMode::Restart => after(turn.now, hold.length_ms),
        ResumeMode::Now => turn.now,
    };
    if due <= turn.now {
        return false;
    }
    let alarm = Alarm::Set {
        rev: turn.run.version,
        at: turn.now,
        due,
    };
    set_alarm(turn, index, hold, alarm, due);
    true
}

fn set_alarm(turn: &mut Turn<'_>, index: usize, hold: &Hold, alarm: Alarm, due: DateTime<Utc>) {
    let (rev, workspace) = (turn.run.version, turn.run.workspace.clone());
    if let Some(step) = turn.step_mut(index) {
        step.phase = StepPhase::Waiting(Hold {
            alarm,
            ..hold.clone()
        });
    }
    turn.effect(Effect::Timer {
        workspace,
        hold: hold.id,
        rev,
        due: Some(due),
    });
}

/// Whether an incident is news: once a reason.
pub(super) fn note_incident(turn: &mut Turn<'_>, reason: &str) -> bool {
    let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
    let is_known = turn.run.incidents.contains(&reason);
    if is_known || turn.run.is_final() || turn.run.incidents.len() >= INCIDENTS_MAX {
        return false;
    }
    turn.run.incidents.push(reason);
    true
}

/// A message about the run lies among the dead letters: its history says so, once a reason.
pub(super) fn incident(mut turn: Turn<'_>, reason: &str) -> Verdict {
    if !note_incident(&mut turn, reason) {
        return Verdict::Unchanged(Answer::Nothing(()));
    }
    let reason = turn.run.incidents.last();
    let message = "A message about this run could not be handled and lies among the dead letters.";
    let data = json!({ "reason": reason });
    turn.event(EventType::RunIncident, None, message.to_owned(), data);
    turn.decided(Answer::Nothing(()))
}

/// Ends the run for good (S2-R13).
pub(super) fn cancel(
    mut turn: Turn<'_>,
    by: &Actor,
    reason: Option<&str>,
) -> Result<Verdict, Stop> {
    if matches!(turn.run.phase, Phase::Cancelled { .. }) {
        return Ok(unchanged(&turn));
    }
    refuse_final(&turn)?;
    if reason.is_some_and(|reason| reason.chars().count() > REASON_CHARS_MAX) {
        return Err(Stop::Refused(Refusal::ReasonTooLong));
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
    turn.ended_by = Some(by.to_string());
    turn.end(Phase::Cancelled {
        at: turn.now,
        failure,
    });
    let data = json!({ "by": by, "reason": reason });
    turn.event(EventType::RunCancelled, None, message, data);
    Ok(turn.changed())
}

/// An alarm is due (S0-AC2). One that was moved, frozen or cleared meanwhile changes nothing: the
/// due time in the database decides, the bus is the wake-up.
pub(super) fn timer_fired(mut turn: Turn<'_>, hold: HoldId, rev: u64) -> Result<Verdict, Stop> {
    let waiting = turn.run.holds().find(|(_, open)| open.id == hold);
    let is_current = waiting.is_some_and(|(_, open)| match open.alarm {
        Alarm::Set { rev: set, .. } => set == rev,
        Alarm::Frozen { .. } => false,
    });
    let Some(index) = waiting
        .filter(|_| is_current)
        .and_then(|(step, _)| turn.run.steps.iter().position(|one| one.id == step.id))
    else {
        return Ok(stale_timer());
    };
    let step = turn.step(index).map(|step| step.id.clone());
    turn.event(
        EventType::RunResumed,
        step.as_deref(),
        "The wait is over; going on.".to_owned(),
        json!({ "hold": hold, "by": "timer" }),
    );
    end_wait(&mut turn, index);
    advance::advance(&mut turn)?;
    Ok(turn.decided(Answer::Timer(TimerAnswer::Applied)))
}

fn end_wait(turn: &mut Turn<'_>, index: usize) {
    let now = turn.now;
    let Some(step) = turn.step_mut(index) else {
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
    turn.row(index, row);
    turn.value(id, data);
}
