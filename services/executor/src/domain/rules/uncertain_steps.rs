//! Steps that may have had their effect: the question about them.

use holdpoint_contracts::history::EventType;
use holdpoint_ids::HoldId;
use serde_json::json;
use strum::VariantArray as _;

use crate::domain::model::run::{Choice, StepGrant, StepPhase, Uncertain};
use crate::domain::rules::open_hold::next_hold_id;
use crate::domain::transition::{RowData, RunTransition};

/// Why it is uncertain whether a step happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// Its worker never reported.
    Unreported,
    /// Its tool did not end in time.
    TimedOut,
    /// Its tool failed, and cannot know whether it had its effect.
    Unconfirmed,
    /// Its worker has stopped it.
    Stopped,
    /// Its run failed after the call, and was retried.
    Retried,
}

pub(crate) fn ask_about_step(
    transition: &mut RunTransition<'_>,
    index: usize,
    working: StepGrant,
    doubt: Doubt,
) {
    let asked = Uncertain {
        working,
        hold: next_hold_id(&mut transition.run),
        since: transition.now,
        answer: None,
        is_minimal: false,
        is_timeout: doubt == Doubt::TimedOut,
        is_unconfirmed: doubt == Doubt::Unconfirmed,
        is_retried: doubt == Doubt::Retried,
        is_stopped: doubt == Doubt::Stopped,
    };
    let hold = asked.hold;
    transition.set_phase(index, StepPhase::Uncertain(asked), RowData::default());
    announce_question(transition, index, hold);
}

/// Tells the clients that follow the history the id of a question about an uncertain step.
pub(crate) fn announce_question(transition: &mut RunTransition<'_>, index: usize, hold: HoldId) {
    let Some(step) = transition.step(index) else {
        return;
    };
    let (id, dispatch) = (step.id.clone(), step.dispatch);
    let reason = step.phase.try_as_uncertain_ref().map(Uncertain::reason);
    let message = format!("{id} {}", reason.unwrap_or_default());
    let options = Choice::VARIANTS;
    transition.event(
        EventType::RunAwaitingInput,
        Some(&id),
        message.clone(),
        json!({
            "reason": "uncertain",
            "dispatch": dispatch,
            "questions": [{
                "id": hold,
                "question": message,
                "schema": { "type": "string", "enum": options },
            }],
        }),
    );
}
