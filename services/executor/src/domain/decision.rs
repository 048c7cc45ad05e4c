//! The types of a decision, for the executor's aggregates.

use holdpoint_decision as decision;
use holdpoint_ids::Workspace;

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

/// The identity of an aggregate within its workspace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InWorkspace<'a, T> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) id: T,
}

impl<'a, T> InWorkspace<'a, T> {
    pub(crate) const fn new(workspace: &'a Workspace, id: T) -> Self {
        Self { workspace, id }
    }
}
