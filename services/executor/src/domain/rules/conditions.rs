//! What a run records about the condition of a step.

use holdpoint_contracts::history::EventType;
use serde_json::{Value, json};

use crate::domain::expression::Condition;
use crate::domain::model::plan::{Action, OnError, PlannedStep};
use crate::domain::model::run::{StepPhase, condition_name};
use crate::domain::need::PlanFact;
use crate::domain::transition::{RowData, RunTransition};

/// Stores the values of a condition, if the plan has a handoff whose context shows them (S0-T2).
pub(crate) fn record_condition(
    transition: &mut RunTransition<'_>,
    plan: &PlanFact,
    id: &str,
    when: &str,
    found: &Condition,
) {
    let is_handoff = |step: &PlannedStep| {
        matches!(step.action, Action::Handoff(_)) || step.on_error == OnError::Handoff
    };
    if plan.plan.steps.iter().any(is_handoff) {
        let value = json!({ "expression": when, "values": found.values, "outcome": found.holds });
        transition.value(condition_name(id), value);
    }
}

pub(crate) fn skip_because(
    transition: &mut RunTransition<'_>,
    index: usize,
    why: String,
    data: Value,
) {
    let phase = StepPhase::Skipped { at: transition.now };
    if let Some(id) = transition.set_phase(index, phase, RowData::ended_because(&why)) {
        transition.event(EventType::StepSkipped, Some(&id), why, data);
    }
}

pub(crate) fn skip_step(
    transition: &mut RunTransition<'_>,
    index: usize,
    when: &str,
    condition: &Condition,
) {
    let message = format!("Skipped: `{when}` does not hold.");
    let data = json!({ "condition": when, "values": condition.values });
    skip_because(transition, index, message, data);
}
