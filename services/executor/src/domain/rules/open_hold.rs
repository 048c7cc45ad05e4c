//! Opens a hold on people, and reads its stored specification.

use holdpoint_contracts::hold::HoldSpec;
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::HoldId;
use serde_json::{Value, json};

use crate::domain::decision::Undecided;
use crate::domain::model::run::{PersonHold, Run, spec_name};
use crate::domain::need::Need;
use crate::domain::refusal::Refusal;
use crate::domain::transition::RunTransition;

/// Opens a hold for so many milliseconds; none: it has no deadline. Its specification is kept as a value, so that
/// every desired state of it says the same.
pub(crate) fn open_hold(
    transition: &mut RunTransition<'_>,
    id: HoldId,
    spec: &HoldSpec,
    length_ms: Option<u64>,
) -> PersonHold {
    let form = (spec.kind == HoldKind::Input).then(|| answer_form(spec));
    let mut on = PersonHold::new(id, spec, form, length_ms, transition.now);
    if !transition.run.pauses.is_empty() {
        on.freeze(transition.now);
    }
    let spec = serde_json::to_value(spec).unwrap_or_default();
    transition.value(spec_name(id), spec);
    on
}

pub(crate) fn load_spec(
    transition: &RunTransition<'_>,
    hold: HoldId,
) -> Result<HoldSpec, Undecided> {
    let need = Need::Value(transition.run.id, spec_name(hold));
    let spec = transition.load_value(need)?;
    spec.and_then(|spec| serde_json::from_value((*spec).clone()).ok())
        .ok_or_else(|| Refusal::SpecMissing(hold).into())
}

pub(crate) fn next_hold_id(run: &mut Run) -> HoldId {
    run.holds += 1;
    HoldId {
        run: run.id,
        number: run.holds,
    }
}

/// The form of an answer, as questions in the history have it.
pub(crate) fn answer_form(spec: &HoldSpec) -> Value {
    match (&spec.schema, spec.answers().as_slice()) {
        (Some(schema), _) => schema.clone(),
        (None, []) => json!({ "type": "string" }),
        (None, options) => json!({ "type": "string", "enum": options }),
    }
}

/// Steps besides this one that would still run.
pub(crate) fn steps_left(transition: &RunTransition<'_>, index: usize) -> u32 {
    let own = transition.run.plan_index(index);
    let steps = transition.run.planned_steps().enumerate();
    let left = steps.filter(|(at, step)| *at != own && !step.phase.is_settled());
    u32::try_from(left.count()).unwrap_or(u32::MAX)
}
