//! `executor.pause_run`: an operator freezes one run (S0-AC4).

use holdpoint_contracts::executor::PauseWaiting;
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::run::PauseScope;

use crate::domain::rules::open_hold_needs::load_open_hold_needs;
use crate::domain::rules::pauses::{add_pause, cancel_by_pause, is_of_run, is_waiting};
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
    if transition.run.pauses.iter().any(is_of_run) {
        return Ok(unchanged_run(&transition));
    }
    add_pause(&mut transition, PauseScope::Run, by);
    transition.changed()
}
