//! `executor.suspend_run`: an operator suspends a run (S1-R1).

use holdpoint_contracts::message::Actor;

use crate::domain::refusal::{REASON_CHARS_MAX, Refusal};
use crate::domain::rules::open_hold_needs::load_open_hold_needs;
use crate::domain::rules::suspension::suspend::suspend;
use crate::domain::transition::{RunDecision, RunTransition, refuse_ended_run, unchanged_run};

/// Suspends the run. A second suspension changes nothing (S1-R3).
pub(crate) fn suspend_run<'a>(
    mut transition: RunTransition<'a>,
    by: &Actor,
    reason: Option<&str>,
) -> RunDecision<'a> {
    refuse_ended_run(&transition)?;
    if transition.run.suspension.is_some() {
        return Ok(unchanged_run(&transition));
    }
    let reason = reason.map(str::trim).filter(|reason| !reason.is_empty());
    if reason.is_some_and(|reason| reason.chars().count() > REASON_CHARS_MAX) {
        return Err(Refusal::ReasonTooLong.into());
    }
    load_open_hold_needs(&transition, &[])?;
    let by_whom = || format!("Suspended by {by}.");
    let reason = reason.map_or_else(by_whom, str::to_owned);
    suspend(&mut transition, &by.0, &reason)?;
    transition.changed()
}
