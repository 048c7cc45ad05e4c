//! The sweep says that the contact of the run has replied. The run looks for itself, so a repetition changes nothing.

use holdpoint_contracts::history::EventType;
use serde_json::json;

use crate::domain::decision::{Lookup, Undecided};
use crate::domain::effect::Reply;
use crate::domain::model::plan::signal_steps::REPLY_SIGNAL;
use crate::domain::need::Fact;
use crate::domain::rules::next_steps::start_next_steps;
use crate::domain::rules::signals::{awaiting_step, contact_need, end_wait_for, reply_of};
use crate::domain::transition::{RunDecision, RunOutcome, RunTransition};

/// Completes the step that waits for the reply, also during a pause: its next steps start on resume.
pub(crate) fn contact_replied(mut transition: RunTransition<'_>) -> RunDecision<'_> {
    let unchanged = Ok(RunOutcome::Unchanged(Reply::Nothing(())));
    let awaiting = awaiting_step(&transition.run, REPLY_SIGNAL);
    let awaiting = awaiting.filter(|_| !transition.run.is_final());
    let (Some(index), Some(need)) = (awaiting, contact_need(&transition.run)) else {
        return unchanged;
    };
    let reply = match transition.lookup(&need) {
        Lookup::NotLoaded => return Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(Fact::Contact(contact)) => reply_of(&contact),
        Lookup::Found(_) | Lookup::Missing => None,
    };
    let Some(reply) = reply else {
        return unchanged;
    };
    let step = transition.step(index).map(|step| step.id.clone());
    transition.event(
        EventType::SignalReceived,
        step.as_deref(),
        "The contact has replied.".to_owned(),
        json!({ "signal": REPLY_SIGNAL, "contact": transition.run.contact }),
    );
    end_wait_for(&mut transition, index, REPLY_SIGNAL, reply);
    start_next_steps(&mut transition)?;
    transition.decided(Reply::Nothing(()))
}
