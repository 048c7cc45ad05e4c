//! Lets the core decide a batch, one input after the other, in memory.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap, HashSet};

use chrono::{DateTime, Utc};
use holdpoint_contracts::problem::Problem;
use holdpoint_decision::{Decided as Change, Decider, Decision, Outcome, Undecided};
use holdpoint_store::{StoreError, Transaction};

use crate::{EffectOf, FactOf, Facts, InputOf, KeyOf, NeedOf, ReplyOf, Service, StateOf};

/// How often one input may ask for more.
const ROUNDS_MAX: u32 = 4;

/// An aggregate within a batch.
#[derive(Debug)]
pub(crate) struct Slot<S: Service> {
    pub(crate) state: Option<StateOf<S>>,
    /// The version in the database; 0: there is none.
    pub(crate) read_version: u64,
    pub(crate) changed: bool,
    /// What other aggregates see of the state, once one has looked.
    fact: OnceCell<Option<FactOf<S>>>,
}

impl<S: Service> Slot<S> {
    /// As it was read; none: there is no such row.
    pub(crate) fn read(state: Option<StateOf<S>>) -> Self {
        Self {
            read_version: state.as_ref().map_or(0, S::Domain::version),
            state,
            changed: false,
            fact: OnceCell::new(),
        }
    }

    /// What other aggregates see of it.
    pub(crate) fn fact(&self) -> Option<&FactOf<S>> {
        let state = self.state.as_ref()?;
        self.fact.get_or_init(|| S::Domain::fact(state)).as_ref()
    }
}

/// Everything that a batch has in memory.
pub(crate) struct Batch<'a, S: Service> {
    pub(crate) service: &'a S,
    pub(crate) slots: HashMap<KeyOf<S>, Slot<S>>,
    pub(crate) found: HashMap<NeedOf<S>, Option<FactOf<S>>>,
    pub(crate) constants: &'a mut HashMap<NeedOf<S>, FactOf<S>>,
    pub(crate) effects: Vec<EffectOf<S>>,
    pub(crate) now: DateTime<Utc>,
}

/// One input waiting to be decided.
struct Pending<'i, S: Service> {
    place: usize,
    key: KeyOf<S>,
    input: &'i InputOf<S>,
    rounds: u32,
}

/// What must wait, and what it waits for.
type Round<'i, S> = (Vec<Pending<'i, S>>, BTreeSet<NeedOf<S>>);

/// What an input came to.
pub(crate) type Decided<S> = Result<ReplyOf<S>, Problem>;

impl<S: Service> Batch<'_, S> {
    /// Decides inputs in order; inputs of one aggregate never overtake each other.
    pub(crate) async fn decide_all(
        &mut self,
        db: &Transaction,
        inputs: &[&InputOf<S>],
        cached: &mut impl FnMut(&KeyOf<S>) -> Option<Option<StateOf<S>>>,
    ) -> Result<Vec<Decided<S>>, StoreError> {
        let mut answers: Vec<Option<Decided<S>>> = inputs.iter().map(|_| None).collect();
        let mut pending: Vec<Pending<'_, S>> = inputs
            .iter()
            .enumerate()
            .map(|(place, &input)| Pending {
                place,
                key: S::Domain::key(input),
                input,
                rounds: 0,
            })
            .collect();
        let keys = pending.iter().map(|one| one.key.clone()).collect();
        self.load(db, keys, cached).await?;
        while !pending.is_empty() {
            let (left, needs) = self.round(pending, &mut answers)?;
            pending = left;
            self.provide(db, needs, cached).await?;
        }
        Ok(answers
            .into_iter()
            .map(|answer| answer.unwrap_or_else(|| Err(Problem::internal())))
            .collect())
    }

    /// One pass over what is pending: returns what must wait, and what it waits for.
    fn round<'i>(
        &mut self,
        pending: Vec<Pending<'i, S>>,
        answers: &mut [Option<Decided<S>>],
    ) -> Result<Round<'i, S>, StoreError> {
        let mut blocked = HashSet::new();
        let mut left = Vec::new();
        let mut needs = BTreeSet::new();
        for mut one in pending {
            if blocked.contains(&one.key) {
                left.push(one);
                continue;
            }
            let reply = match self.decide_one(&one) {
                Ok(Outcome::Decided(decided)) => {
                    let reply = self.apply(&one.key, *decided);
                    S::Domain::problem_after_commit(&reply).map_or(Ok(reply), Err)
                }
                Ok(Outcome::Unchanged(reply)) => Ok(reply),
                Err(Undecided::Refused(refusal)) => {
                    tracing::debug!(key = ?one.key, ?refusal, "refused");
                    Err(S::Domain::problem(&refusal))
                }
                Err(Undecided::NeedsMore(more)) if one.rounds < ROUNDS_MAX => {
                    one.rounds += 1;
                    blocked.insert(one.key.clone());
                    needs.extend(more);
                    left.push(one);
                    continue;
                }
                Err(Undecided::NeedsMore(more)) => {
                    // The batch is parted until its task is alone, and that becomes a dead letter.
                    let reason = format!("{:?} always needs more: {more:?}", one.key);
                    return Err(StoreError::broken("decisions", reason));
                }
            };
            if let Some(place) = answers.get_mut(one.place) {
                *place = Some(reply);
            }
        }
        Ok((left, needs))
    }

    fn decide_one(&self, one: &Pending<'_, S>) -> Decision<S::Domain> {
        let state = self
            .slots
            .get(&one.key)
            .and_then(|slot| slot.state.as_ref());
        let facts = Facts {
            slots: &self.slots,
            found: &self.found,
            constants: self.constants,
        };
        S::Domain::decide(state, one.input, &|need| facts.lookup(need), self.now)
    }

    fn apply(&mut self, key: &KeyOf<S>, decision: Change<S::Domain>) -> ReplyOf<S> {
        let slot = self.slots.entry(key.clone());
        let slot = slot.or_insert_with(|| Slot::read(None));
        slot.state = Some(decision.state);
        slot.fact = OnceCell::new();
        slot.changed = true;
        self.effects.extend(decision.effects);
        for (need, fact) in decision.facts {
            self.found.insert(need, Some(fact));
        }
        decision.reply
    }

    /// Forgets everything that was decided.
    pub(crate) fn undo(&mut self) {
        self.slots.clear();
        self.effects.clear();
    }

    /// Brings in what decisions lack: other aggregates, and facts in one query a table.
    async fn provide(
        &mut self,
        db: &Transaction,
        needs: BTreeSet<NeedOf<S>>,
        cached: &mut impl FnMut(&KeyOf<S>) -> Option<Option<StateOf<S>>>,
    ) -> Result<(), StoreError> {
        let (aggregates, facts): (Vec<_>, Vec<_>) = needs
            .into_iter()
            .partition(|need| S::Domain::aggregate(need).is_some());
        let keys = aggregates.iter().filter_map(S::Domain::aggregate).collect();
        self.load(db, keys, cached).await?;
        let unknown: Vec<_> = facts
            .into_iter()
            .filter(|need| !self.found.contains_key(need))
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        for (need, fact) in self.service.find(db, &unknown).await? {
            if S::Domain::is_constant(&need) {
                self.constants.insert(need.clone(), fact.clone());
            }
            self.found.insert(need, Some(fact));
        }
        for need in unknown {
            self.found.entry(need).or_insert(None);
        }
        Ok(())
    }

    async fn load(
        &mut self,
        db: &Transaction,
        keys: BTreeSet<KeyOf<S>>,
        cached: &mut impl FnMut(&KeyOf<S>) -> Option<Option<StateOf<S>>>,
    ) -> Result<(), StoreError> {
        let mut missing = Vec::new();
        for key in keys {
            if self.slots.contains_key(&key) {
                continue;
            }
            let known = cached(&key);
            if known.is_none() {
                missing.push(key.clone());
            }
            self.insert(key, known.flatten());
        }
        if missing.is_empty() {
            return Ok(());
        }
        for (key, state) in self.service.load(db, &missing).await? {
            self.insert(key, Some(state));
        }
        Ok(())
    }

    fn insert(&mut self, key: KeyOf<S>, state: Option<StateOf<S>>) {
        self.slots.insert(key, Slot::read(state));
    }
}
