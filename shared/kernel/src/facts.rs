//! The data that a decision may read besides its own aggregate.

use std::cell::OnceCell;
use std::collections::HashMap;

use holdpoint_decision::{Decider, Lookup};

use crate::service::{FactOf, KeyOf, NeedOf, Service, StateOf};

/// An aggregate within a batch.
#[derive(Debug)]
pub(crate) struct Slot<S: Service> {
    pub(crate) state: Option<StateOf<S>>,
    /// The version in the database; 0 if there is none.
    pub(crate) read_version: u64,
    pub(crate) changed: bool,
    /// What other aggregates may read, computed when the first one asks.
    fact: OnceCell<Option<FactOf<S>>>,
}

impl<S: Service> Slot<S> {
    /// As read from the database.
    pub(crate) fn read(state: Option<StateOf<S>>) -> Self {
        Self {
            read_version: state.as_ref().map_or(0, S::Domain::version),
            state,
            changed: false,
            fact: OnceCell::new(),
        }
    }

    pub(crate) fn set(&mut self, state: StateOf<S>) {
        self.state = Some(state);
        self.fact = OnceCell::new();
        self.changed = true;
    }

    fn fact(&self) -> Option<&FactOf<S>> {
        let state = self.state.as_ref()?;
        self.fact.get_or_init(|| S::Domain::fact(state)).as_ref()
    }
}

/// The facts of a batch.
#[derive(Debug)]
pub struct Facts<'a, S: Service> {
    pub(crate) slots: &'a HashMap<KeyOf<S>, Slot<S>>,
    pub(crate) found: &'a HashMap<NeedOf<S>, Option<FactOf<S>>>,
    pub(crate) constants: &'a HashMap<NeedOf<S>, FactOf<S>>,
}

impl<S: Service> Facts<'_, S> {
    /// The value of a need. Another aggregate has the state that earlier decisions of the batch gave it.
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

/// Facts for tests of a core.
#[derive(Debug)]
pub struct FixedFacts<S: Service> {
    slots: HashMap<KeyOf<S>, Slot<S>>,
    found: HashMap<NeedOf<S>, Option<FactOf<S>>>,
    constants: HashMap<NeedOf<S>, FactOf<S>>,
}

impl<S: Service> FixedFacts<S> {
    /// Nothing is loaded.
    #[must_use]
    pub fn none() -> Self {
        Self {
            slots: HashMap::new(),
            found: HashMap::new(),
            constants: HashMap::new(),
        }
    }

    /// Loads an aggregate, or that it does not exist.
    pub fn aggregate(&mut self, key: KeyOf<S>, state: Option<StateOf<S>>) {
        self.slots.insert(key, Slot::read(state));
    }

    /// Loads a fact, or that it does not exist.
    pub fn fact(&mut self, need: NeedOf<S>, fact: Option<FactOf<S>>) {
        self.found.insert(need, fact);
    }

    #[must_use]
    pub fn facts(&self) -> Facts<'_, S> {
        Facts {
            slots: &self.slots,
            found: &self.found,
            constants: &self.constants,
        }
    }
}
