//! The stored specification of a hold on people.

use holdpoint_contracts::hold::HoldSpec;
use holdpoint_ids::HoldId;

use crate::domain::decision::{Lookup, Undecided};
use crate::domain::model::run::spec_name;
use crate::domain::need::{Fact, Need};
use crate::domain::refusal::Refusal;
use crate::domain::transition::RunTransition;

/// The stored specification of a hold.
pub(crate) fn load_spec(
    transition: &RunTransition<'_>,
    hold: HoldId,
) -> Result<HoldSpec, Undecided> {
    let need = Need::Value(transition.run.id, spec_name(hold));
    match transition.lookup(&need) {
        Lookup::NotLoaded => Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(Fact::Value(spec)) => {
            serde_json::from_value((*spec).clone()).map_err(|_unreadable| spec_missing(hold))
        }
        Lookup::Missing | Lookup::Found(_) => Err(spec_missing(hold)),
    }
}

const fn spec_missing(hold: HoldId) -> Undecided {
    Undecided::Refused(Refusal::SpecMissing(hold))
}
