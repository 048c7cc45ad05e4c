//! The one loop of every service.
//!
//! Messages come in ([`intake`]), one database thread takes what is there, loads the aggregates,
//! lets the service's pure core decide one by one in memory, and saves everything in one
//! transaction with an outbox row ([`writer`], [`commit`], [`decide`]); a publisher then sends,
//! answers and acks ([`publisher`]). A service has no loop and no transaction of its own.
//!
//! Invariants: nothing is published or answered that was not committed; a message is acked after
//! its commit; what cannot be handled becomes a dead letter; of two writers of one aggregate one
//! wins and the other decides again.

mod activity;
mod commit;
pub mod crash;
mod dead_letters;
mod decide;
mod facts;
mod idempotency;
mod intake;
mod outbox;
mod parts;
mod publisher;
mod queries;
mod recovery;
mod start;
mod suspects;
mod sweep;
mod task;
mod wishes;
mod writer;

#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::hash::Hash;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use holdpoint_bus::Outgoing;
use holdpoint_contracts::message::Asked;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::subject::Parts;
use holdpoint_ids::Workspace;
use holdpoint_store::{StoreError, Transaction};
use serde::Serialize;

pub use activity::Activity;
pub use facts::{Facts, Found, GivenFacts};
pub use holdpoint_telemetry::Vital;
pub use queries::{Queries, serve_queries};
pub use start::{Deps, Handle, KernelError, start};
pub use sweep::{Sweep, SweepNudge, SweepPage, start_sweep};
pub use wishes::{read_first, rows_as_command};

/// A service: a pure core, its rows, and the translation of both to and from messages.
#[expect(
    async_fn_in_trait,
    reason = "the database thread awaits these itself, so none need be Send"
)]
pub trait Service: Send + Sync + Sized + 'static {
    /// As in subjects.
    const NAME: &'static str;
    /// Names one aggregate.
    type Key: Clone + Eq + Hash + Ord + Debug + Send;
    /// An aggregate's control state.
    type State: Clone + Debug + Send;
    /// Everything that can happen to one aggregate.
    type Input: Debug + Send;
    /// Something a decision may lack.
    type Need: Clone + Eq + Hash + Ord + Debug + Send;
    /// What is found for a need. Cheap to clone.
    type Fact: Clone + Debug + Send;
    /// What is to be stored beside the state, sent, or both.
    type Effect: Debug + Send;
    /// Every way to say no.
    type Refusal: Debug + Send;
    /// What the caller is told.
    type Answer: Serialize + Debug + Send;

    /// The aggregate that an input is for.
    fn key(input: &Self::Input) -> Self::Key;

    /// Decides what an input does. Total and pure: same arguments, same answer.
    fn decide(
        &self,
        state: Option<&Self::State>,
        input: &Self::Input,
        facts: &Facts<'_, Self>,
        now: DateTime<Utc>,
    ) -> Outcome<Self>;

    /// The aggregate that a need asks for, where it asks for one: its state in the batch counts.
    fn aggregate(need: &Self::Need) -> Option<Self::Key>;

    /// What other aggregates may know of this one.
    fn fact(state: &Self::State) -> Self::Fact;

    /// Whether what is found for a need never changes, and so may be kept.
    fn is_constant(need: &Self::Need) -> bool;

    /// Rises by one with every decision that changes the state.
    fn version(state: &Self::State) -> u64;

    /// Whether more is likely to happen to it soon, so that it is worth keeping in memory.
    fn is_hot(state: &Self::State) -> bool;

    /// Whether it is worth remembering that there is no such aggregate: because decisions look for it
    /// again and again. Like hot states, only while this process alone writes the tables.
    fn remembers_absence(key: &Self::Key) -> bool {
        let _unused = key;
        false
    }

    /// How a refusal is told.
    fn problem(&self, refusal: &Self::Refusal) -> Problem;

    /// Reads a command's body into inputs.
    ///
    /// # Errors
    /// A [`Problem`] that says what is wrong with the body.
    fn decode(&self, parts: &Parts, body: &[u8]) -> Result<Request<Self::Input>, Problem>;

    /// Loads aggregates in one query a table; unknown ones are left out.
    async fn load(
        &self,
        db: &Transaction,
        keys: &[Self::Key],
    ) -> Result<Vec<(Self::Key, Self::State)>, StoreError>;

    /// Loads what decisions lack, in one query a table; what is not there is left out.
    async fn find(
        &self,
        db: &Transaction,
        needs: &[Self::Need],
    ) -> Result<Vec<(Self::Need, Self::Fact)>, StoreError>;

    /// Saves states, each only if the row is still at the version it was read at; returns those
    /// that were not saved because somebody was faster.
    async fn save(
        &self,
        db: &Transaction,
        changed: &[Changed<'_, Self>],
        now: DateTime<Utc>,
    ) -> Result<Vec<Self::Key>, StoreError>;

    /// Stores what belongs beside the states, in multi-row statements.
    async fn record(
        &self,
        db: &Transaction,
        effects: &[Self::Effect],
        now: DateTime<Utc>,
    ) -> Result<(), StoreError>;

    /// The messages that effects ask for; they leave through the outbox of the same transaction.
    fn outbound(&self, effects: &[Self::Effect]) -> Vec<Outgoing>;

    /// What effects want of other services: level, not edge. Each is a row until its receiver has
    /// confirmed it; the kernel publishes it after the commit and sends it again until then.
    fn wishes(&self, effects: &[Self::Effect]) -> Vec<Wish> {
        let _none = effects;
        Vec::new()
    }

    /// The command that carries wishes of one kind, workspace and partition: subject and body. The
    /// receiver answers with one reply a wish, in their order.
    ///
    /// # Errors
    /// When they cannot be written as JSON.
    fn wish_message(
        &self,
        kind: &str,
        workspace: &Workspace,
        bodies: &[&str],
    ) -> Result<Outgoing, serde_json::Error> {
        let _unused = (workspace, bodies);
        Err(serde::ser::Error::custom(format!(
            "no wish is of kind `{kind}`"
        )))
    }

    /// What a receiver's answer to a wish means for the aggregate that wished: it is decided like any
    /// other input, in a commit after the one that forgets the wish. None: nothing.
    fn confirmed(&self, wish: &Confirmed<'_>) -> Option<Self::Input> {
        let _unused = wish;
        None
    }

    /// What becomes of a wish that its receiver understood and refused. The default keeps the row: it is
    /// sent again rarely and reported until the receiver takes it.
    fn refused(&self, wish: &RefusedWish<'_>) -> AfterRefusal<Self::Input> {
        let _unused = wish;
        AfterRefusal::Keep
    }

    /// An answer that is told as a problem although the state has changed: what the loser of a race
    /// said was kept, and it is told that it has lost.
    fn told_as_problem(answer: &Self::Answer) -> Option<Problem> {
        let _unused = answer;
        None
    }

    /// What becomes of an aggregate when a message about it had to be buried (a dead letter): an
    /// incident on a run, for instance.
    fn incident(&self, subject: &str, body: &[u8], reason: &str) -> Vec<Self::Input> {
        let _unused = (subject, body, reason);
        Vec::new()
    }

    /// The same where the input is known that had to be buried, so that no neighbour in its message is
    /// blamed. None: what [`Self::incident`] says of the message.
    fn incident_of(&self, input: &Self::Input, reason: &str) -> Option<Self::Input> {
        let _unused = (input, reason);
        None
    }

    /// Core messages that may be lost: subject and body.
    fn nudges(&self, effects: &[Self::Effect]) -> Vec<(String, Bytes)>;
}

/// Something that another service is to make so: level, not edge (DESIGN, "The tables are enough").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// Which of the service's kinds ([`Service::wish_message`] knows them): `timer`, `hold`, ….
    pub kind: &'static str,
    /// Whose.
    pub workspace: Workspace,
    /// Names it within kind and workspace.
    pub id: String,
    /// Rises with every wish of the same id; the highest is the one that counts.
    pub rev: u64,
    /// JSON of one item of the command.
    pub body: String,
}

/// A wish that its receiver has confirmed, and with which words.
#[derive(Debug)]
pub struct Confirmed<'a> {
    /// As in [`Wish::kind`].
    pub kind: &'a str,
    /// Whose.
    pub workspace: &'a Workspace,
    /// As in [`Wish::id`].
    pub id: &'a str,
    /// As in [`Wish::rev`].
    pub rev: u64,
    /// The receiver's reply to this one item.
    pub answer: &'a serde_json::Value,
}

/// A wish that its receiver understood and refused.
#[derive(Debug)]
pub struct RefusedWish<'a> {
    /// As in [`Wish::kind`].
    pub kind: &'a str,
    /// Whose.
    pub workspace: &'a Workspace,
    /// As in [`Wish::id`].
    pub id: &'a str,
    /// As in [`Wish::rev`].
    pub rev: u64,
    /// Why the receiver refused.
    pub problem: &'a Problem,
}

impl RefusedWish<'_> {
    /// Whether the receiver refused because it does not have what the wish is about.
    #[must_use]
    pub const fn is_about_nothing(&self) -> bool {
        self.problem.status == 404
    }
}

/// What becomes of a wish that was refused.
#[derive(Debug, PartialEq, Eq)]
pub enum AfterRefusal<I> {
    /// The row stays. The kernel sends it again rarely and reports it.
    Keep,
    /// The aggregate at the receiver is gone, so that nothing waits for the wish: its row goes.
    LetGo,
    /// The service decides about the refusal; the row goes once that is committed.
    Decide(I),
}

/// What a decision came to.
#[derive(Debug)]
pub enum Outcome<S: Service> {
    /// The state changes.
    Decided(Decision<S>),
    /// Nothing changes, and the caller is told so: a repetition, or a no-op.
    Unchanged(S::Answer),
    /// Not without these.
    Need(Vec<S::Need>),
    /// The rules say no; nothing changes.
    Refused(S::Refusal),
}

/// The next state of an aggregate and what goes with it.
#[derive(Debug)]
pub struct Decision<S: Service> {
    /// Its version is one above the one decided on.
    pub state: S::State,
    /// In the order in which they are to happen.
    pub effects: Vec<S::Effect>,
    /// What later decisions of the same batch may find.
    pub facts: Vec<(S::Need, S::Fact)>,
    /// For the caller, after the commit.
    pub answer: S::Answer,
}

/// A state to save.
#[derive(Debug)]
pub struct Changed<'a, S: Service> {
    /// Which aggregate.
    pub key: &'a S::Key,
    /// As it is to be.
    pub state: &'a S::State,
    /// The version that was read; 0: there was none.
    pub read_version: u64,
}

/// One message: an input, or several that are committed together.
#[derive(Debug)]
pub struct Request<I> {
    /// In order.
    pub inputs: Vec<I>,
    /// Whether the answer is a list, one for each input.
    pub many: bool,
    /// All or none: where one input is refused nothing of the message happens, and each of the others
    /// is answered with [`NONE_DONE`](holdpoint_contracts::problem::NONE_DONE).
    pub whole: bool,
    /// The caller's idempotency key.
    pub asked: Option<Asked>,
}

impl<I> Request<I> {
    /// A command for one aggregate.
    pub fn one(input: I, asked: Option<Asked>) -> Self {
        Self {
            inputs: vec![input],
            many: false,
            whole: false,
            asked,
        }
    }

    /// Several, each answered by itself.
    #[must_use]
    pub fn many(inputs: Vec<I>) -> Self {
        Self {
            inputs,
            many: true,
            whole: false,
            asked: None,
        }
    }

    /// Several, of any aggregates, that are all done or none.
    #[must_use]
    pub const fn whole(inputs: Vec<I>, asked: Option<Asked>) -> Self {
        Self {
            inputs,
            many: true,
            whole: true,
            asked,
        }
    }
}
