//! The types of a decision, for the executor's aggregates.

use holdpoint_decision as decision;

use crate::domain::effect::{Effect, Reply};
use crate::domain::need::{Aggregate, Fact, Need};

/// The executor's rules; [`decide`](fn@super::decide) implements them.
#[derive(Debug)]
pub struct ExecutorDomain;

pub type Decision = decision::Decision<ExecutorDomain>;

pub type Outcome = decision::Outcome<ExecutorDomain>;

pub type Decided = decision::Decided<ExecutorDomain>;

pub type Undecided = decision::Undecided<ExecutorDomain>;

pub type Lookup = decision::Lookup<Fact>;

/// How a decision looks up what it needs.
pub type LookupFn<'a> = &'a dyn Fn(&Need) -> Lookup;

/// A decision that changes one aggregate.
pub(crate) fn decided(state: Aggregate, effects: Vec<Effect>, reply: Reply) -> Decision {
    Ok(Outcome::Decided(Box::new(Decided {
        state,
        effects,
        facts: Vec::new(),
        reply,
    })))
}
