//! The types of a decision, for the notification service's aggregates.

use holdpoint_decision as decision;

use super::{Fact, Need, Refusal};

/// The notification service's rules; [`decide`](super::decide) implements them.
#[derive(Debug, PartialEq)]
pub struct NotificationDomain;

/// A finished decision.
pub type Outcome = decision::Outcome<NotificationDomain>;
/// The next state of an aggregate, with its effects.
pub type Change = decision::Decided<NotificationDomain>;
/// Why there is no decision.
pub type Undecided = decision::Undecided<NotificationDomain>;
/// The value of a need.
pub type Lookup = decision::Lookup<Fact>;
/// How a decision looks up what it needs.
pub type LookupFn<'a> = &'a dyn Fn(&Need) -> Lookup;

impl From<Refusal> for Undecided {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}
