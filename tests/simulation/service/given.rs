//! What the decisions of one batch may read.

use std::collections::HashMap;

use holdpoint_decision::{Decider, Lookup};
use holdpoint_kernel::{FactOf, KeyOf, NeedOf, Service, StateOf};

pub(super) struct Given<S: Service> {
    aggregates: HashMap<KeyOf<S>, Option<FactOf<S>>>,
    facts: HashMap<NeedOf<S>, Option<FactOf<S>>>,
}

impl<S: Service> Default for Given<S> {
    fn default() -> Self {
        Self {
            aggregates: HashMap::new(),
            facts: HashMap::new(),
        }
    }
}

impl<S: Service> Given<S> {
    /// Loads an aggregate, or that it does not exist.
    pub(super) fn aggregate(&mut self, key: KeyOf<S>, state: Option<&StateOf<S>>) {
        let fact = state.and_then(S::Domain::fact);
        self.aggregates.insert(key, fact);
    }

    /// Loads a fact, or that it does not exist.
    pub(super) fn fact(&mut self, need: NeedOf<S>, fact: Option<FactOf<S>>) {
        self.facts.insert(need, fact);
    }

    pub(super) fn lookup(&self, need: &NeedOf<S>) -> Lookup<FactOf<S>> {
        let given = match S::Domain::aggregate(need) {
            Some(key) => self.aggregates.get(&key),
            None => self.facts.get(need),
        };
        match given {
            None => Lookup::NotLoaded,
            Some(None) => Lookup::Missing,
            Some(Some(fact)) => Lookup::Found(fact.clone()),
        }
    }
}
