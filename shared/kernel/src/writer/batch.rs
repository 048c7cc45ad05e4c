//! Lets the core decide a batch in memory, one input after the other.
//!
//! A decision that lacks data returns its needs. The batch collects the needs of all inputs, loads them with
//! one query per table, and decides those inputs again. A core asks for all it may need ahead, because each
//! further round costs queries and [`ROUNDS_MAX`] bounds them.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap, HashSet};

use chrono::{DateTime, Utc};
use holdpoint_contracts::problem::Problem;
use holdpoint_decision::{Decided, Decider, Decision, Lookup, Outcome, Undecided};
use holdpoint_store::{StoreError, Transaction};

use crate::service::{EffectOf, FactOf, InputOf, KeyOf, NeedOf, ReplyOf, Service, StateOf};

/// How often one input may ask for more data. An input beyond it becomes a dead letter.
const ROUNDS_MAX: u32 = 4;

/// The data of a batch, in memory.
pub(crate) struct Batch<'a, S: Service> {
    pub(crate) service: &'a S,
    pub(crate) slots: HashMap<KeyOf<S>, Slot<S>>,
    pub(crate) found: HashMap<NeedOf<S>, Option<FactOf<S>>>,
    pub(crate) constants: &'a mut HashMap<NeedOf<S>, FactOf<S>>,
    pub(crate) effects: Vec<EffectOf<S>>,
    pub(crate) now: DateTime<Utc>,
}

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
    fn read(state: Option<StateOf<S>>) -> Self {
        Self {
            read_version: state.as_ref().map_or(0, S::Domain::version),
            state,
            changed: false,
            fact: OnceCell::new(),
        }
    }

    fn set(&mut self, state: StateOf<S>) {
        self.state = Some(state);
        self.fact = OnceCell::new();
        self.changed = true;
    }

    fn fact(&self) -> Option<&FactOf<S>> {
        let state = self.state.as_ref()?;
        self.fact.get_or_init(|| S::Domain::fact(state)).as_ref()
    }
}

/// One input waiting to be decided.
struct Pending<'i, S: Service> {
    place: usize,
    key: KeyOf<S>,
    input: &'i InputOf<S>,
    rounds: u32,
}

/// The inputs that lack data, and the data that they lack.
type Round<'i, S> = (Vec<Pending<'i, S>>, BTreeSet<NeedOf<S>>);

/// The reply to an input, or why it was refused.
pub(crate) type InputReply<S> = Result<ReplyOf<S>, Problem>;

/// Takes an aggregate from the cache. `None`: not cached; `Some(None)`: known not to exist.
pub(super) type Cached<'c, S> = &'c mut dyn FnMut(&KeyOf<S>) -> Option<Option<StateOf<S>>>;

impl<S: Service> Batch<'_, S> {
    /// Decides inputs in order; inputs of one aggregate never overtake each other.
    pub(crate) async fn decide_all(
        &mut self,
        db: &Transaction,
        inputs: &[&InputOf<S>],
        cached: Cached<'_, S>,
    ) -> Result<Vec<InputReply<S>>, StoreError> {
        let mut replies: Vec<Option<InputReply<S>>> = inputs.iter().map(|_| None).collect();
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
            let (waiting, needs) = self.decide_round(pending, &mut replies)?;
            pending = waiting;
            self.load_needs(db, needs, cached).await?;
        }
        Ok(replies
            .into_iter()
            .map(|reply| reply.unwrap_or_else(|| Err(Problem::internal())))
            .collect())
    }

    /// Decides all inputs whose data is loaded.
    fn decide_round<'i>(
        &mut self,
        pending: Vec<Pending<'i, S>>,
        replies: &mut [Option<InputReply<S>>],
    ) -> Result<Round<'i, S>, StoreError> {
        let mut blocked = HashSet::new();
        let mut waiting = Vec::new();
        let mut needs = BTreeSet::new();
        for mut one in pending {
            if blocked.contains(&one.key) {
                waiting.push(one);
                continue;
            }
            let reply = match self.decide_one(&one) {
                Ok(Outcome::Decided(decided)) => {
                    let reply = self.apply(&one.key, *decided);
                    S::Domain::problem_after_commit(&reply).map_or(Ok(reply), Err)
                }
                Ok(Outcome::Unchanged(reply)) => Ok(reply),
                Err(Undecided::Refused(refusal)) => {
                    tracing::debug!(key = ?one.key, ?refusal, "input refused");
                    Err(S::Domain::problem(&refusal))
                }
                Err(Undecided::NeedsMore(more)) if one.rounds < ROUNDS_MAX => {
                    one.rounds += 1;
                    blocked.insert(one.key.clone());
                    needs.extend(more);
                    waiting.push(one);
                    continue;
                }
                Err(Undecided::NeedsMore(more)) => {
                    // The batch is split until this task is alone and becomes a dead letter.
                    let reason = format!("{:?} needs more data in every round: {more:?}", one.key);
                    return Err(StoreError::broken("decisions", reason));
                }
            };
            if let Some(place) = replies.get_mut(one.place) {
                *place = Some(reply);
            }
        }
        Ok((waiting, needs))
    }

    fn decide_one(&self, one: &Pending<'_, S>) -> Decision<S::Domain> {
        let state = self
            .slots
            .get(&one.key)
            .and_then(|slot| slot.state.as_ref());
        S::Domain::decide(state, one.input, &|need| self.lookup(need), self.now)
    }

    /// The value of a need. Another aggregate has the state that earlier decisions of the batch gave it.
    fn lookup(&self, need: &NeedOf<S>) -> Lookup<FactOf<S>> {
        let found = match S::Domain::aggregate(need) {
            Some(key) => self.slots.get(&key).map(Slot::fact),
            None => match self.constants.get(need) {
                Some(fact) => Some(Some(fact)),
                None => self.found.get(need).map(Option::as_ref),
            },
        };
        match found {
            None => Lookup::NotLoaded,
            Some(None) => Lookup::Missing,
            Some(Some(fact)) => Lookup::Found(fact.clone()),
        }
    }

    fn apply(&mut self, key: &KeyOf<S>, decided: Decided<S::Domain>) -> ReplyOf<S> {
        let slot = self.slots.entry(key.clone());
        let slot = slot.or_insert_with(|| Slot::read(None));
        slot.set(decided.state);
        self.effects.extend(decided.effects);
        for (need, fact) in decided.facts {
            self.found.insert(need, Some(fact));
        }
        decided.reply
    }

    pub(crate) fn discard_decisions(&mut self) {
        self.slots.clear();
        self.effects.clear();
    }

    /// Loads what decisions lack: other aggregates, and facts with one query per table.
    async fn load_needs(
        &mut self,
        db: &Transaction,
        needs: BTreeSet<NeedOf<S>>,
        cached: Cached<'_, S>,
    ) -> Result<(), StoreError> {
        let (aggregates, facts): (Vec<_>, Vec<_>) = needs
            .into_iter()
            .partition(|need| S::Domain::aggregate(need).is_some());
        let keys = aggregates.iter().filter_map(S::Domain::aggregate).collect();
        self.load(db, keys, cached).await?;
        let unknown: Vec<_> = facts
            .into_iter()
            .filter(|need| !self.found.contains_key(need) && !self.constants.contains_key(need))
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
        cached: Cached<'_, S>,
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
