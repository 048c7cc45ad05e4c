//! `executor.pause_run`, `resume_run`: an operator freezes one run (S0-AC4), or ends its pause.

use holdpoint_contracts::executor::PauseWaiting;
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::run::{PauseScope, PausedBy, ResumeMode};

use crate::domain::rules::kept_answers::apply_kept_answers;
use crate::domain::rules::next_steps::start_next_steps;
use crate::domain::rules::open_hold_needs::load_open_hold_needs;
use crate::domain::rules::pauses::{
    add_pause, cancel_by_pause, is_waiting, requeue_steps, resume_holds,
};
use crate::domain::transition::{RunDecision, RunTransition, refuse_ended_run, unchanged_run};

/// Freezes the run (S0-AC4): its timers are cleared and what was left of them is kept; queued
/// steps do not start; running ones finish and are kept.
///
/// A caller who wants no waiting run cancels one that waits, as a pause of its agent would (S0-T6.3).
pub(crate) fn pause_run<'a>(
    mut transition: RunTransition<'a>,
    by: &Actor,
    waiting: PauseWaiting,
) -> RunDecision<'a> {
    refuse_ended_run(&transition)?;
    load_open_hold_needs(&transition, &[])?;
    if waiting == PauseWaiting::Cancel && is_waiting(transition.run.status()) {
        cancel_by_pause(&mut transition, PauseScope::Run, by);
        return transition.changed();
    }
    if transition.run.pauses.iter().any(is_own) {
        return Ok(unchanged_run(&transition));
    }
    add_pause(&mut transition, PauseScope::Run, by);
    transition.changed()
}

/// Lifts the run's own pause; once none is left, waits go on by `mode` and steps start again.
pub(crate) fn resume_run<'a>(
    mut transition: RunTransition<'a>,
    by: &Actor,
    mode: ResumeMode,
) -> RunDecision<'a> {
    refuse_ended_run(&transition)?;
    // What was paused with its agent or workspace is resumed with it.
    if !transition.run.pauses.iter().any(is_own) {
        return Ok(unchanged_run(&transition));
    }
    load_open_hold_needs(&transition, &[])?;
    transition.run.pauses.retain(|pause| !is_own(pause));
    if transition.run.pauses.is_empty() {
        resume_holds(&mut transition, by, mode);
        requeue_steps(&mut transition);
        apply_kept_answers(&mut transition)?;
        start_next_steps(&mut transition)?;
    }
    transition.changed()
}

fn is_own(pause: &PausedBy) -> bool {
    pause.scope == PauseScope::Run
}
