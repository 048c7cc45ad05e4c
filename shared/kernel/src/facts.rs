//! What a decision can look at besides its own aggregate.

use std::collections::HashMap;

use crate::Service;
use crate::decide::Slot;

/// What there is to know about a need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found<F> {
    /// Nobody has looked yet: ask for it.
    Unknown,
    /// Looked, and there is no such thing.
    Absent,
    /// Here it is.
    Here(F),
}

/// The facts of a batch.
#[derive(Debug)]
pub struct Facts<'a, S: Service> {
    pub(crate) slots: &'a HashMap<S::Key, Slot<S>>,
    pub(crate) found: &'a HashMap<S::Need, Option<S::Fact>>,
    pub(crate) constants: &'a HashMap<S::Need, S::Fact>,
}

impl<S: Service> Facts<'_, S> {
    /// What is known about a need; another aggregate's state is the one it has within the batch.
    #[must_use]
    pub fn look(&self, need: &S::Need) -> Found<S::Fact> {
        if let Some(key) = S::aggregate(need) {
            return match self.slots.get(&key) {
                None => Found::Unknown,
                Some(slot) => slot
                    .fact()
                    .map_or(Found::Absent, |fact| Found::Here(fact.clone())),
            };
        }
        if let Some(fact) = self.constants.get(need) {
            return Found::Here(fact.clone());
        }
        match self.found.get(need) {
            None => Found::Unknown,
            Some(None) => Found::Absent,
            Some(Some(fact)) => Found::Here(fact.clone()),
        }
    }
}

/// Facts given by hand, for tests of a core.
#[derive(Debug)]
pub struct GivenFacts<S: Service> {
    slots: HashMap<S::Key, Slot<S>>,
    found: HashMap<S::Need, Option<S::Fact>>,
    constants: HashMap<S::Need, S::Fact>,
}

impl<S: Service> GivenFacts<S> {
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
    pub fn aggregate(&mut self, key: S::Key, state: Option<S::State>) {
        self.slots.insert(key, Slot::read(state));
    }

    /// Makes a fact known, or known to be absent.
    pub fn fact(&mut self, need: S::Need, fact: Option<S::Fact>) {
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
