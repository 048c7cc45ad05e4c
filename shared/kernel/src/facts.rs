//! What a decision can look at besides its own aggregate.

use std::collections::HashMap;

use holdpoint_decision::{Decider, Lookup};

use crate::decide::Slot;
use crate::{FactOf, KeyOf, NeedOf, Service, StateOf};

/// The facts of a batch.
#[derive(Debug)]
pub struct Facts<'a, S: Service> {
    pub(crate) slots: &'a HashMap<KeyOf<S>, Slot<S>>,
    pub(crate) found: &'a HashMap<NeedOf<S>, Option<FactOf<S>>>,
    pub(crate) constants: &'a HashMap<NeedOf<S>, FactOf<S>>,
}

impl<S: Service> Facts<'_, S> {
    /// What is known about a need; another aggregate's state is the one it has within the batch.
    #[must_use]
    pub fn lookup(&self, need: &NeedOf<S>) -> Lookup<FactOf<S>> {
        if let Some(key) = S::Domain::aggregate(need) {
            return match self.slots.get(&key) {
                None => Lookup::NotLoaded,
                Some(slot) => slot
                    .fact()
                    .map_or(Lookup::Missing, |fact| Lookup::Found(fact.clone())),
            };
        }
        if let Some(fact) = self.constants.get(need) {
            return Lookup::Found(fact.clone());
        }
        match self.found.get(need) {
            None => Lookup::NotLoaded,
            Some(None) => Lookup::Missing,
            Some(Some(fact)) => Lookup::Found(fact.clone()),
        }
    }
}

/// Facts given by hand, for tests of a core.
#[derive(Debug)]
pub struct FixedFacts<S: Service> {
    slots: HashMap<KeyOf<S>, Slot<S>>,
    found: HashMap<NeedOf<S>, Option<FactOf<S>>>,
    constants: HashMap<NeedOf<S>, FactOf<S>>,
}

impl<S: Service> FixedFacts<S> {
    /// Nothing is known.
    #[must_use]
    pub fn none() -> Self {
        Self {
            slots: HashMap::new(),
            found: HashMap::new(),
            constants: HashMap::new(),
        }
    }

    /// Makes an aggregate known, or known not to be there.
    pub fn aggregate(&mut self, key: KeyOf<S>, state: Option<StateOf<S>>) {
        self.slots.insert(key, Slot::read(state));
    }

    /// Makes a fact known, or known to be absent.
    pub fn fact(&mut self, need: NeedOf<S>, fact: Option<FactOf<S>>) {
        self.found.insert(need, fact);
    }

    /// As a decision sees them.
    #[must_use]
    pub fn facts(&self) -> Facts<'_, S> {
        Facts {
            slots: &self.slots,
            found: &self.found,
            constants: &self.constants,
        }
    }
}
