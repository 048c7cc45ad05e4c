//! What a service gives the kernel: its rules ([`Decider`]), its rows ([`Store`]), and the
//! translation between messages and both ([`Service`], [`Outbound`]).

use bytes::Bytes;
use chrono::{DateTime, Utc};
use holdpoint_bus::Outgoing;
use holdpoint_contracts::message::IdempotencyKey;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::subject::Parts;
use holdpoint_decision::Decider;
use holdpoint_ids::Workspace;
use holdpoint_store::{StoreError, Transaction};

/// The key type of a service's aggregates; the aliases below name its other types.
pub type KeyOf<S> = <<S as Service>::Domain as Decider>::Key;
/// See [`Decider::State`].
pub type StateOf<S> = <<S as Service>::Domain as Decider>::State;
/// See [`Decider::Input`].
pub type InputOf<S> = <<S as Service>::Domain as Decider>::Input;
/// See [`Decider::Need`].
pub type NeedOf<S> = <<S as Service>::Domain as Decider>::Need;
/// See [`Decider::Fact`].
pub type FactOf<S> = <<S as Service>::Domain as Decider>::Fact;
/// See [`Decider::Effect`].
pub type EffectOf<S> = <<S as Service>::Domain as Decider>::Effect;
/// See [`Decider::Reply`].
pub type ReplyOf<S> = <<S as Service>::Domain as Decider>::Reply;

/// A service that the kernel runs.
pub trait Service: Store<Self::Domain> + Outbound<Self::Domain> + Send + Sync + 'static {
    /// The name in subjects.
    const NAME: &'static str;
    /// The rules.
    type Domain: Decider;

    /// Reads the body of a command into inputs.
    ///
    /// # Errors
    /// A [`Problem`] that says what is wrong with the body.
    fn decode(&self, parts: &Parts, body: &[u8]) -> Result<DecodedCommand<InputOf<Self>>, Problem>;

    /// The inputs that record a dead letter at the aggregates that its message concerns, such as an
    /// incident on a run.
    fn incident(&self, subject: &str, body: &[u8], reason: &str) -> Vec<InputOf<Self>> {
        let _unused = (subject, body, reason);
        Vec::new()
    }

    /// The same for one known input, so that the other inputs of its message are not blamed. `None`:
    /// [`Self::incident`] of the whole message.
    fn incident_of(&self, input: &InputOf<Self>, reason: &str) -> Option<InputOf<Self>> {
        let _unused = (input, reason);
        None
    }
}

/// The rows of a service. Every method costs one statement per table, whatever the number of items.
#[expect(
    async_fn_in_trait,
    reason = "the database thread awaits these itself, so none need be Send"
)]
pub trait Store<D: Decider> {
    /// Loads aggregates; unknown ones are left out.
    async fn load(
        &self,
        db: &Transaction,
        keys: &[D::Key],
    ) -> Result<Vec<(D::Key, D::State)>, StoreError>;

    /// Loads what decisions need; missing values are left out.
    async fn find(
        &self,
        db: &Transaction,
        needs: &[D::Need],
    ) -> Result<Vec<(D::Need, D::Fact)>, StoreError>;

    /// Saves each state if its row still has the version that was read. Returns the keys of the
    /// others: another writer was faster.
    async fn save(
        &self,
        db: &Transaction,
        changed: &[Changed<'_, D>],
        now: DateTime<Utc>,
    ) -> Result<Vec<D::Key>, StoreError>;

    /// Stores what belongs beside the states.
    async fn record(
        &self,
        db: &Transaction,
        effects: &[D::Effect],
        now: DateTime<Utc>,
    ) -> Result<(), StoreError>;
}

/// The translation of effects into messages and desired states.
pub trait Outbound<D: Decider> {
    /// Messages that leave through the outbox of the same transaction.
    fn messages(&self, effects: &[D::Effect]) -> Vec<Outgoing> {
        let _none = effects;
        Vec::new()
    }

    /// The states that effects want of other services. Each is a row until its receiver has
    /// acknowledged it; the kernel publishes it after the commit and sends it again until then.
    fn desired_states(&self, effects: &[D::Effect]) -> Vec<DesiredState> {
        let _none = effects;
        Vec::new()
    }

    /// The command that carries desired states of one kind, workspace and partition. The receiver
    /// replies once per state, in their order.
    ///
    /// # Errors
    /// When they cannot be written as JSON.
    fn desired_state_command(
        &self,
        kind: &str,
        workspace: &Workspace,
        bodies: &[&str],
    ) -> Result<Outgoing, serde_json::Error> {
        let _unused = (workspace, bodies);
        Err(serde::ser::Error::custom(format!(
            "unknown kind of desired state: `{kind}`"
        )))
    }

    /// The input that a receiver's acknowledgement means for the sender. It is decided like any other
    /// input, in a commit after the one that deletes the row. `None`: nothing.
    fn acknowledged(&self, desired: &Acknowledged<'_>) -> Option<D::Input> {
        let _unused = desired;
        None
    }

    /// What happens to a desired state that its receiver understood and refused. The default keeps the
    /// row: it is sent again rarely, and reported until the receiver accepts it.
    fn refused(&self, desired: &RefusedState<'_>) -> AfterRefusal<D::Input> {
        let _unused = desired;
        AfterRefusal::Keep
    }

    /// Core messages that may be lost: subject and body. Called after the commit.
    fn nudges(&self, effects: &[D::Effect]) -> Vec<(String, Bytes)> {
        let _none = effects;
        Vec::new()
    }
}

/// Something that another service is to make so: level, not edge (DESIGN, "The tables are enough").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredState {
    /// Which of the service's kinds ([`Service::desired_state_command`] knows them): `timer`, `hold`, ….
    pub kind: &'static str,
    pub workspace: Workspace,
    /// Names it within kind and workspace.
    pub id: String,
    /// Rises with every desired state of the same id; the highest is the one that counts.
    pub rev: u64,
    /// JSON of one item of the command.
    pub body: String,
}

/// A desired state that its receiver has confirmed, and with which words.
#[derive(Debug)]
pub struct Acknowledged<'a> {
    /// As in [`DesiredState::kind`].
    pub kind: &'a str,
    pub workspace: &'a Workspace,
    /// As in [`DesiredState::id`].
    pub id: &'a str,
    /// As in [`DesiredState::rev`].
    pub rev: u64,
    /// The receiver's reply to this one item.
    pub answer: &'a serde_json::Value,
}

/// A desired state that its receiver understood and refused.
#[derive(Debug)]
pub struct RefusedState<'a> {
    /// As in [`DesiredState::kind`].
    pub kind: &'a str,
    pub workspace: &'a Workspace,
    /// As in [`DesiredState::id`].
    pub id: &'a str,
    /// As in [`DesiredState::rev`].
    pub rev: u64,
    /// Why the receiver refused.
    pub problem: &'a Problem,
}

impl RefusedState<'_> {
    /// Whether the receiver refused because it does not have what the desired state is about.
    #[must_use]
    pub const fn is_about_nothing(&self) -> bool {
        self.problem.status == 404
    }
}

/// What becomes of a desired state that was refused.
#[derive(Debug, PartialEq, Eq)]
pub enum AfterRefusal<I> {
    /// The row stays. The kernel sends it again rarely and reports it.
    Keep,
    /// The aggregate at the receiver is gone, so that nothing waits for the desired state: its row goes.
    LetGo,
    /// The service decides about the refusal; the row goes once that is committed.
    Decide(I),
}

/// A state to save.
#[derive(Debug)]
pub struct Changed<'a, D: Decider> {
    pub key: &'a D::Key,
    /// As it is to be.
    pub state: &'a D::State,
    /// The version that was read; 0: there was none.
    pub read_version: u64,
}

/// One message: an input, or several that are committed together.
#[derive(Debug)]
pub struct DecodedCommand<I> {
    /// In order.
    pub inputs: Vec<I>,
    /// Whether the answer is a list, one for each input.
    pub many: bool,
    /// All or none: where one input is refused nothing of the message happens, and each of the others
    /// is answered with [`BATCH_ABORTED`](holdpoint_contracts::problem::NONE_DONE).
    pub whole: bool,
    /// The caller's idempotency key.
    pub asked: Option<IdempotencyKey>,
}

impl<I> DecodedCommand<I> {
    /// A command for one aggregate.
    pub fn one(input: I, asked: Option<IdempotencyKey>) -> Self {
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
    pub const fn whole(inputs: Vec<I>, asked: Option<IdempotencyKey>) -> Self {
        Self {
            inputs,
            many: true,
            whole: true,
            asked,
        }
    }
}
