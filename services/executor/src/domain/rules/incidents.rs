//! Which incidents a run keeps.

use crate::domain::model::run::INCIDENTS_MAX;
use crate::domain::refusal::REASON_CHARS_MAX;
use crate::domain::transition::RunTransition;

/// Adds an incident, each reason once. Returns whether it is new.
pub(crate) fn add_incident(transition: &mut RunTransition<'_>, reason: &str) -> bool {
    let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
    let is_known = transition.run.incidents.contains(&reason);
    if is_known || transition.run.is_final() || transition.run.incidents.len() >= INCIDENTS_MAX {
        return false;
    }
    transition.run.incidents.push(reason);
    true
}
