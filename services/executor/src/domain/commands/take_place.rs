//! A queued run takes a place of its agent, if one is free, and starts.

use crate::domain::effect::Reply;
use crate::domain::rules::next_steps::start_next_steps;
use crate::domain::transition::{RunDecision, RunOutcome, RunTransition};

pub(crate) fn take_place(mut transition: RunTransition<'_>) -> RunDecision<'_> {
    if transition.run.wanted_place().is_some() {
        start_next_steps(&mut transition)?;
    }
    // A run that ends at once has freed its place in the same decision.
    if transition.run.limits == transition.before.limits && !transition.run.is_final() {
        return Ok(RunOutcome::Unchanged(Reply::Nothing(())));
    }
    transition.decided(Reply::Nothing(()))
}
