//! `executor.resume_run`: an operator ends the pause and the suspension of one run (S0-AC4, S1-R1).

use holdpoint_contracts::message::Actor;
use holdpoint_contracts::run::ResumeMode;
use holdpoint_contracts::suspension::StepOnResume;

use crate::domain::rules::kept_answers::apply_kept_answers;
use crate::domain::rules::next_steps::start_next_steps;
use crate::domain::rules::open_hold_needs::load_open_hold_needs;
use crate::domain::rules::pauses::{is_of_run, requeue_steps, resume_holds};
use crate::domain::rules::suspension::resumed_steps::end_suspension;
use crate::domain::transition::{RunDecision, RunTransition, refuse_ended_run, unchanged_run};

/// Lifts the run's own pause and its suspension; once no pause is left, waits go on by `mode` and steps start again.
pub(crate) fn resume_run<'a>(
    mut transition: RunTransition<'a>,
    by: &Actor,
    mode: ResumeMode,
    step: Option<&StepOnResume>,
) -> RunDecision<'a> {
    refuse_ended_run(&transition)?;
    // What was paused with its agent or workspace is resumed with it.
    if !transition.run.pauses.iter().any(is_of_run) {
        return Ok(unchanged_run(&transition));
    }
    load_open_hold_needs(&transition, &[])?;
    transition.run.pauses.retain(|pause| !is_of_run(pause));
    end_suspension(&mut transition, by, step)?;
    if transition.run.pauses.is_empty() {
        resume_holds(&mut transition, by, mode);
        requeue_steps(&mut transition);
        apply_kept_answers(&mut transition)?;
        start_next_steps(&mut transition)?;
    }
    transition.changed()
}
