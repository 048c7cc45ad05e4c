//! A person becomes the owner of a run: its live steps are revoked.

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::instant;
use serde_json::json;

use crate::domain::decision::Undecided;
use crate::domain::model::run::{HoldClosure, PersonHold, StepPhase};
use crate::domain::rules::end_person_step::step_of_hold;
use crate::domain::rules::open_hold_needs::load_open_hold_needs;
use crate::domain::rules::uncertain_steps::{Doubt, ask_about_step};
use crate::domain::transition::{RowData, RunTransition};

pub(crate) fn record_takeover(
    transition: &mut RunTransition<'_>,
    on: &PersonHold,
    closing: &HoldClosure,
) {
    let step = step_of_hold(transition, on.id);
    transition.event(
        EventType::HandoffTakenOver,
        step.as_deref(),
        format!("{} has taken over.", closing.by),
        json!({ "request": on.id, "by": closing.by, "at": instant::write(closing.at) }),
    );
}

/// Revokes every dispatched step. Its number rises, so that later reports of its worker are only evidence.
/// Idempotent steps start again when the run is handed back. People are asked about the others.
pub(crate) fn revoke_steps(transition: &mut RunTransition<'_>) -> Result<(), Undecided> {
    load_running_step_needs(transition)?;
    for index in 0..transition.run.steps.len() {
        let Some(step) = transition.step_mut(index) else {
            continue;
        };
        step.questions.open = None;
        let lost = step.phase.try_as_granted_ref().cloned();
        if lost.is_none() && !matches!(step.phase, StepPhase::Queued(_) | StepPhase::Parked(_)) {
            continue;
        }
        step.dispatch += 1;
        let id = step.id.clone();
        transition.retract_dispatch(&id);
        match lost.filter(|working| !working.handed.idempotent) {
            Some(working) => ask_about_step(transition, index, working, Doubt::Unreported),
            None => {
                transition.set_phase(index, StepPhase::Planned, RowData::default());
            }
        }
    }
    Ok(())
}

/// Loads what the questions about running steps need.
pub(crate) fn load_running_step_needs(transition: &RunTransition<'_>) -> Result<(), Undecided> {
    let out: Vec<usize> = transition
        .run
        .steps
        .iter()
        .enumerate()
        .filter(|(_, step)| matches!(step.phase, StepPhase::Granted(_)))
        .map(|(index, _)| index)
        .collect();
    load_open_hold_needs(transition, &out)
}
