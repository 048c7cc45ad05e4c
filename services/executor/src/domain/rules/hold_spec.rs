//! The stored specification of a hold on people.

use holdpoint_contracts::hold::HoldSpec;
use holdpoint_ids::HoldId;

use crate::domain::decision::Undecided;
use crate::domain::model::run::spec_name;
use crate::domain::need::Need;
use crate::domain::refusal::Refusal;
use crate::domain::transition::RunTransition;

pub(crate) fn load_spec(
    transition: &RunTransition<'_>,
    hold: HoldId,
) -> Result<HoldSpec, Undecided> {
    let need = Need::Value(transition.run.id, spec_name(hold));
    let spec = transition.load_value(need)?;
    spec.and_then(|spec| serde_json::from_value((*spec).clone()).ok())
        .ok_or_else(|| Refusal::SpecMissing(hold).into())
}
