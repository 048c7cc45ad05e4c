//! The kernel reports a dead letter that concerns a run.

use holdpoint_contracts::history::EventType;
use serde_json::json;

use crate::domain::effect::Reply;
use crate::domain::transition::{RunDecision, RunOutcome, RunTransition};

/// A message about the run is a dead letter. The history records each reason once.
pub(crate) fn record_incident<'a>(
    mut transition: RunTransition<'a>,
    reason: &str,
) -> RunDecision<'a> {
    if !transition.add_incident(reason) {
        return Ok(RunOutcome::Unchanged(Reply::Nothing(())));
    }
    let reason = transition.run.incidents.last();
    let message = "A message about this run could not be handled and is a dead letter.";
    let data = json!({ "reason": reason });
    transition.event(EventType::RunIncident, None, message.to_owned(), data);
    transition.decided(Reply::Nothing(()))
}
