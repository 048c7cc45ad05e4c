//! `executor.cancel_run`: an operator ends a run for good (S2-R13).

use holdpoint_contracts::message::Actor;
use serde_json::json;

use crate::domain::model::run::Phase;
use crate::domain::refusal::{REASON_CHARS_MAX, Refusal};
use crate::domain::transition::{RunDecision, RunTransition, refuse_ended_run, unchanged_run};

pub(crate) fn cancel_run<'a>(
    mut transition: RunTransition<'a>,
    by: &Actor,
    reason: Option<&str>,
) -> RunDecision<'a> {
    if matches!(transition.run.phase, Phase::Cancelled { .. }) {
        return Ok(unchanged_run(&transition));
    }
    refuse_ended_run(&transition)?;
    if reason.is_some_and(|reason| reason.chars().count() > REASON_CHARS_MAX) {
        return Err(Refusal::ReasonTooLong.into());
    }
    let message = match reason {
        Some(reason) => format!("Cancelled by {by}: {reason}"),
        None => format!("Cancelled by {by}."),
    };
    let data = json!({ "by": by, "reason": reason });
    transition.cancel(by, "cancelled", message, data);
    transition.changed()
}
