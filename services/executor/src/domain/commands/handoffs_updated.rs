//! `executor.handoffs_updated`: the handoff service reports what users did with an open handoff. A repetition changes
//! nothing.

use holdpoint_contracts::hold::{HandoffEvent, HandoffUpdateReply};
use holdpoint_ids::HoldId;

use crate::domain::effect::Reply;
use crate::domain::rules::handoff_events::record_events;
use crate::domain::transition::{RunDecision, RunOutcome, RunTransition};

pub(crate) fn update_handoff<'a>(
    mut transition: RunTransition<'a>,
    hold: HoldId,
    handoff_events: &[HandoffEvent],
) -> RunDecision<'a> {
    let Some(on) = transition.run.person_hold(hold) else {
        return Ok(RunOutcome::Unchanged(Reply::HandoffUpdated(
            HandoffUpdateReply::Stale,
        )));
    };
    let answer = Reply::HandoffUpdated(HandoffUpdateReply::EventRecorded);
    if record_events(&mut transition, &on, handoff_events.iter()) {
        transition.decided(answer)
    } else {
        Ok(RunOutcome::Unchanged(answer))
    }
}
