//! What a pause and a resume do to a run: clocks stop, nothing starts, nothing is lost.

use std::time::Duration;

use holdpoint_contracts::duration::describe;
use holdpoint_contracts::handoff::Disposition;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::instant;
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::run::{PauseScope, PausedBy, ResumeMode, RunStatus};
use serde_json::json;

use crate::domain::model::run::{Deadline, PersonHold, Run, StepPhase};
use crate::domain::model::time::{after, millis_between};
use crate::domain::rules::end_person_step::completion;
use crate::domain::rules::missing_tools::end_kept_missing_tools;
use crate::domain::rules::next_steps::complete_if_ended;
use crate::domain::rules::timers::{end_wait, freeze_timers, thaw_timers};
use crate::domain::transition::RunTransition;

/// Adds a pause, and tells of it.
pub(crate) fn add_pause(transition: &mut RunTransition<'_>, scope: PauseScope, by: &Actor) {
    freeze_run(transition, scope, &by.0);
    let message = transition.run.message(transition.now);
    let data = json!({ "scope": scope, "by": by });
    transition.event(EventType::RunPaused, None, message, data);
}

/// Stops the clocks of a run at the instant of the transition.
pub(crate) fn freeze_run(transition: &mut RunTransition<'_>, scope: PauseScope, by: &str) {
    let in_flight = transition
        .run
        .steps
        .iter()
        .filter(|step| matches!(step.phase, StepPhase::Granted(_)))
        .map(|step| step.id.clone())
        .collect();
    freeze_timers(transition);
    let now = transition.now;
    transition.run.people_mut().for_each(|on| on.freeze(now));
    let pause = PausedBy {
        scope,
        by: by.to_owned(),
        at: transition.now,
        in_flight,
    };
    transition.run.pauses.push(pause);
}

/// Sets the timers of frozen waits from the instant of the transition on, and ends waits that have no time
/// left.
pub(crate) fn resume_holds(transition: &mut RunTransition<'_>, by: &Actor, mode: ResumeMode) {
    transition.resume_mode = mode;
    // The waits of a run that a person owns stay frozen. If that person has handed the run back during the
    // pause, they continue by `mode` from this instant on, however late the run applies both.
    let elapsed = if stays_owned(&transition.run) {
        Vec::new()
    } else {
        thaw_timers(transition, mode)
    };
    let now = transition.now;
    for on in transition.run.people_mut() {
        if let Deadline::Frozen { remaining_ms, due } = on.clock {
            let due = match mode {
                // `now` only ends waits: people keep their remaining time.
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

/// Whether a person owns the run and has not handed it back during the pause.
fn stays_owned(run: &Run) -> bool {
    let is_takeover = |on: &PersonHold| run.takeover_hold.as_ref().is_some_and(|it| it.id == on.id);
    run.people().any(|(_, on)| {
        let is_returned = on
            .closing
            .as_ref()
            .is_some_and(|closing| match completion(closing) {
                Some(done) => done.disposition == Disposition::ReturnToAgent,
                None => is_takeover(on),
            });
        on.taken.is_some() && !is_returned
    })
}

/// Dispatches of a paused run may have been dropped. So their steps start again: a higher number fences the
/// old dispatch, and condition and arguments see the state after the pause. A question about the tool of such a step
/// ends with its dispatch, unless it was answered during the pause.
pub(crate) fn requeue_steps(transition: &mut RunTransition<'_>) {
    end_kept_missing_tools(transition);
    for step in &mut transition.run.steps {
        if matches!(step.phase, StepPhase::Queued(_)) {
            step.phase = StepPhase::Planned;
        }
    }
}

/// Removes a pause. Without any other pause the waits continue.
pub(crate) fn remove_pause(
    transition: &mut RunTransition<'_>,
    kind: PauseScope,
    by: &Actor,
    mode: ResumeMode,
) {
    transition.run.pauses.retain(|pause| pause.scope != kind);
    if transition.run.pauses.is_empty() {
        resume_holds(transition, by, mode);
        complete_if_ended(transition);
    }
}

/// Whether a run with that status waits for a hold or a person.
pub(crate) const fn is_waiting(status: RunStatus) -> bool {
    match status {
        RunStatus::Waiting
        | RunStatus::AwaitingApproval
        | RunStatus::AwaitingInput
        | RunStatus::PausedForIntervention => true,
        RunStatus::Queued
        | RunStatus::Running
        | RunStatus::Completed
        | RunStatus::Failed
        | RunStatus::Cancelled => false,
    }
}

/// S0-T6.3: the words are fixed.
pub(crate) fn cancel_by_pause(transition: &mut RunTransition<'_>, kind: PauseScope, by: &Actor) {
    let message = "Agent paused manually".to_owned();
    let data = json!({ "by": by, "reason": message, "scope": kind });
    transition.cancel(by, "agent_paused", message, data);
}

/// Whether it is the run's own pause, and not that of its agent or workspace.
pub(crate) fn is_of_run(pause: &PausedBy) -> bool {
    pause.scope == PauseScope::Run
}
