//! What every pure core shares: the data that a decision is given, and what it returns.
//!
//! A service's rules implement [`Decider`]. The kernel loads what they need, calls them, and carries
//! out what they return. Nothing here does I/O, so the same rules run in services, in the simulation
//! and in generated documents.

use std::fmt::Debug;
use std::hash::Hash;

use chrono::{DateTime, Utc};
use holdpoint_contracts::problem::Problem;
use serde::Serialize;

/// The rules of one service.
///
/// Rules are total and pure: the same arguments give the same decision, and a refusal changes nothing.
pub trait Decider: Sized + 'static {
    /// Identifies one aggregate.
    type Key: Clone + Eq + Hash + Ord + Debug + Send;
    /// The control state of an aggregate.
    type State: Clone + Debug + Send;
    /// Anything that can happen to one aggregate.
    type Input: Debug + Send;
    type Need: Clone + Eq + Hash + Ord + Debug + Send;
    /// The loaded value of a need. Cheap to clone.
    type Fact: Clone + Debug + Send;
    /// Something to store beside the state, to send, or both.
    type Effect: Debug + Send;
    type Refusal: Debug + Send;
    type Reply: Serialize + Debug + Send;

    /// The aggregate that an input is for.
    fn key(input: &Self::Input) -> Self::Key;

    /// Decides what an input does to its aggregate. `None` as state means that it does not exist.
    ///
    /// # Errors
    /// [`Undecided`]: the decision lacks data, or a rule rejects the input.
    fn decide(
        state: Option<&Self::State>,
        input: &Self::Input,
        lookup: LookupFn<'_, Self>,
        now: DateTime<Utc>,
    ) -> Decision<Self>;

    /// The aggregate that a need asks for, if it asks for one. Its state within the batch counts.
    fn aggregate(need: &Self::Need) -> Option<Self::Key>;

    /// The part of an aggregate that other decisions may read. `None`: as if it did not exist.
    fn fact(state: &Self::State) -> Option<Self::Fact>;

    /// Whether the value of a need never changes, so that the kernel may keep it.
    fn is_constant(_: &Self::Need) -> bool {
        false
    }

    /// Rises by one with every decision that changes the state.
    fn version(state: &Self::State) -> u64;

    /// Whether the next input is likely to come soon, so that the state is worth keeping in memory.
    fn is_hot(state: &Self::State) -> bool;

    /// Whether to cache that an aggregate does not exist, because many decisions look for it.
    fn caches_absence(_: &Self::Key) -> bool {
        false
    }

    /// The refusal as callers read it.
    fn problem(refusal: &Self::Refusal) -> Problem;

    /// A reply that reaches the caller as a problem although the state has changed: the loser of a
    /// race is told that it lost, and its answer is kept.
    fn problem_after_commit(_: &Self::Reply) -> Option<Problem> {
        None
    }

    /// Whether a later decision on the same aggregate completes the reply. A caller may wait for that.
    fn is_incomplete(_: &Self::Reply) -> bool {
        false
    }

    /// The reply after such a decision. It may still be incomplete.
    fn updated_reply(reply: Self::Reply, _: &Self::State) -> Self::Reply {
        reply
    }
}

/// How a decision looks up what it needs.
pub type LookupFn<'a, D> = &'a dyn Fn(&<D as Decider>::Need) -> Lookup<<D as Decider>::Fact>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup<F> {
    Found(F),
    /// It was looked for and does not exist.
    Missing,
    /// It was not loaded yet: the decision asks for it with [`Undecided::NeedsMore`].
    NotLoaded,
}

pub type Decision<D> = Result<Outcome<D>, Undecided<D>>;

#[derive(Debug)]
pub enum Outcome<D: Decider> {
    Decided(Box<Decided<D>>),
    /// Nothing changes, and the caller gets this reply: a repetition, or nothing to do.
    Unchanged(D::Reply),
}

/// The next state of an aggregate, with its effects.
#[derive(Debug, PartialEq)]
pub struct Decided<D: Decider> {
    /// Its version is one above the state that was decided on.
    pub state: D::State,
    /// In the order in which the service carries them out.
    pub effects: Vec<D::Effect>,
    /// Facts that later decisions of the same batch may find.
    pub facts: Vec<(D::Need, D::Fact)>,
    /// For the caller, after the commit.
    pub reply: D::Reply,
}

/// Why there is no decision. Nothing changes.
#[derive(Debug, PartialEq)]
pub enum Undecided<D: Decider> {
    /// The decision lacks these. The kernel loads them and asks again, at most four times.
    NeedsMore(Vec<D::Need>),
    /// A rule rejects the input.
    Refused(D::Refusal),
}

impl<D: Decider> Undecided<D> {
    /// Adds the needs of what follows, so that one round loads both.
    #[must_use]
    pub fn with_needs_of<T>(self, following: impl FnOnce() -> Result<T, Self>) -> Self {
        let Self::NeedsMore(mut needs) = self else {
            return self;
        };
        if let Err(Self::NeedsMore(more)) = following() {
            needs.extend(more);
        }
        Self::NeedsMore(needs)
    }
}

// A derive would ask for `D: PartialEq` and miss the boxed types.
impl<D: Decider> PartialEq for Outcome<D>
where
    Decided<D>: PartialEq,
    D::Reply: PartialEq,
{
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Decided(one), Self::Decided(two)) => one == two,
            (Self::Unchanged(one), Self::Unchanged(two)) => one == two,
            (Self::Decided(_), Self::Unchanged(_)) | (Self::Unchanged(_), Self::Decided(_)) => {
                false
            }
        }
    }
}
