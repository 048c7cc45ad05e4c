//! Steps that may have had their effect: the question about them.

use holdpoint_contracts::history::EventType;
use holdpoint_ids::HoldId;
use serde_json::json;
use strum::VariantArray as _;

use crate::domain::model::run::{Choice, StepGrant, StepPhase, Uncertain};
use crate::domain::rules::open_hold::next_hold_id;
use crate::domain::transition::{RowData, RunTransition};

/// The worker of a step never reported.
pub(crate) fn ask_about_step(transition: &mut RunTransition<'_>, index: usize, working: StepGrant) {
    ask_whether(transition, index, working, false);
}

/// The tool of a step did not end in time.
pub(crate) fn ask_about_timeout(
    transition: &mut RunTransition<'_>,
    index: usize,
    working: StepGrant,
) {
    ask_whether(transition, index, working, true);
}

fn ask_whether(
    transition: &mut RunTransition<'_>,
    index: usize,
    working: StepGrant,
    is_timeout: bool,
) {
    let asked = Uncertain {
        working,
        hold: next_hold_id(&mut transition.run),
        since: transition.now,
        answer: None,
        is_minimal: false,
        is_timeout,
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
