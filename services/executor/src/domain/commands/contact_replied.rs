//! The sweep says that the contact of the run has replied. The run looks for itself, so a repetition changes nothing.

use holdpoint_contracts::contact::REPLY_SIGNAL;
use holdpoint_contracts::history::EventType;
use serde_json::json;

use crate::domain::decision::{Lookup, Undecided};
use crate::domain::effect::Reply;
use crate::domain::need::Fact;
use crate::domain::rules::next_steps::start_next_steps;
use crate::domain::rules::signals::{
    awaited_reply, awaiting_step, contact_need, end_wait_for, reply_of,
};
use crate::domain::transition::{RunDecision, RunOutcome, RunTransition};

/// Completes all steps that wait for the reply, also during a pause: their next steps start on resume.
pub(crate) fn contact_replied(mut transition: RunTransition<'_>) -> RunDecision<'_> {
    let unchanged = Ok(RunOutcome::Unchanged(Reply::Nothing(())));
    if awaited_reply(&transition.run).is_none() {
        return unchanged;
    }
    let Some(need) = contact_need(&transition.run) else {
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
    while let Some(index) = awaiting_step(&transition.run, REPLY_SIGNAL) {
        let step = transition.step(index).map(|step| step.id.clone());
        transition.event(
            EventType::SignalReceived,
            step.as_deref(),
            "The contact has replied.".to_owned(),
            json!({ "signal": REPLY_SIGNAL, "contact": transition.run.contact }),
        );
        end_wait_for(&mut transition, index, REPLY_SIGNAL, reply.clone());
    }
    start_next_steps(&mut transition)?;
    transition.decided(Reply::Nothing(()))
}
