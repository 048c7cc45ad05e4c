//! The types of a decision, for the handoff service's aggregates.

use holdpoint_decision as decision;

use super::need::{Fact, Need};
use super::refusal::Refusal;

/// The handoff service's rules; `decide` implements them.
#[derive(Debug, PartialEq)]
pub struct HandoffDomain;

/// A finished decision.
pub type Outcome = decision::Outcome<HandoffDomain>;
/// The next state of an aggregate, with its effects.
pub type Change = decision::Decided<HandoffDomain>;
/// Why there is no decision.
pub type Undecided = decision::Undecided<HandoffDomain>;
/// The value of a need.
pub type Lookup = decision::Lookup<Fact>;
/// How a decision looks up what it needs.
pub type LookupFn<'a> = &'a dyn Fn(&Need) -> Lookup;

impl From<Refusal> for Undecided {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}
