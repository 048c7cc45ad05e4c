//! What a service gives the kernel: its rules ([`Decider`]), its rows ([`Store`]), and the
//! translation between messages and both ([`Service`], [`Outbound`]).

use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use holdpoint_bus::Outgoing;
use holdpoint_contracts::message::IdempotencyKey;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::subject::Parts;
use holdpoint_decision::Decider;
use holdpoint_ids::Workspace;
use holdpoint_store::{ChangedState, StoreError, Transaction};
use holdpoint_telemetry::Vital;

/// The key type of a service's aggregates. The other aliases name its other types.
pub type KeyOf<S> = <<S as Service>::Domain as Decider>::Key;
pub type StateOf<S> = <<S as Service>::Domain as Decider>::State;
pub type InputOf<S> = <<S as Service>::Domain as Decider>::Input;
pub type NeedOf<S> = <<S as Service>::Domain as Decider>::Need;
pub type FactOf<S> = <<S as Service>::Domain as Decider>::Fact;
pub type EffectOf<S> = <<S as Service>::Domain as Decider>::Effect;
pub type ReplyOf<S> = <<S as Service>::Domain as Decider>::Reply;

/// A service that the kernel runs.
pub trait Service: Store<Self::Domain> + Outbound<Self::Domain> + Send + Sync + 'static {
    /// The name in subjects.
    const NAME: &'static str;
    type Domain: Decider;
    /// How long stored commands may wait for others, so that one commit has more of them. Zero for a service whose
    /// commits continue runs.
    const LINGER: Duration = Duration::ZERO;

    /// Whether the decision on an acknowledgement may wait some milliseconds for other inputs, because no caller waits for
    /// it. One commit then has both.
    fn may_wait(&self, input: &InputOf<Self>) -> bool {
        let _unused = input;
        false
    }

    /// Reads the body of a command into inputs.
    ///
    /// # Errors
    /// A [`Problem`] that says what is wrong with the body.
    fn decode(&self, parts: &Parts, body: &[u8]) -> Result<DecodedCommand<InputOf<Self>>, Problem>;

    /// The inputs that record a dead letter at the aggregates of its message, such as an incident on a run.
    fn incident(&self, subject: &str, body: &[u8], reason: &str) -> Vec<InputOf<Self>> {
        let _unused = (subject, body, reason);
        Vec::new()
    }

    /// The same for one decoded input, so that the other inputs of its message are not blamed. `None`:
    /// [`Self::incident`] applies to the whole message.
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

    /// Saves each state whose row still has the version that was read. Returns the keys of the others,
    /// where another writer was faster.
    async fn save(
        &self,
        db: &Transaction,
        changed: &[Changed<'_, D>],
        now: DateTime<Utc>,
    ) -> Result<Vec<D::Key>, StoreError>;

    /// Stores effects that have rows of their own, such as history.
    async fn record(
        &self,
        db: &Transaction,
        effects: &[D::Effect],
        now: DateTime<Utc>,
    ) -> Result<(), StoreError>;
}

/// The translation of effects into messages and desired states.
pub trait Outbound<D: Decider> {
    /// Messages for the outbox row of the same transaction.
    fn messages(&self, effects: &[D::Effect]) -> Vec<Outgoing> {
        let _none = effects;
        Vec::new()
    }

    /// Desired states of other services. Each is a row until its receiver has acknowledged it. The kernel
    /// publishes it after the commit and sends it again until then.
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

    /// The input that follows from a receiver's acknowledgement, its `reply` to this one item. It is decided like any other input, and the
    /// row is deleted after its commit. `None`: the row is deleted at once.
    fn acknowledged(&self, sent: &SentState<'_>, reply: &serde_json::Value) -> Option<D::Input> {
        let _unused = (sent, reply);
        None
    }

    /// Decides about a desired state that its receiver understood and refused. The default keeps the row: it is
    /// sent again rarely, and reported until the receiver accepts it.
    fn refused(&self, sent: &SentState<'_>, problem: &Problem) -> AfterRefusal<D::Input> {
        let _unused = (sent, problem);
        AfterRefusal::Keep
    }

    /// Core messages that may be lost: subject and body. Called after the commit.
    fn nudges(&self, effects: &[D::Effect]) -> Vec<(String, Bytes)> {
        let _none = effects;
        Vec::new()
    }
}

/// The state that a service wants another one to reach, as in Kubernetes. It is level-triggered: each carries
/// the whole state and not a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredState {
    /// One of the service's kinds, such as `timer` or `hold`; see [`Outbound::desired_state_command`].
    pub kind: &'static str,
    pub workspace: Workspace,
    /// Unique within kind and workspace. States of one aggregate that all count have a number behind `#`, such as
    /// `zoe#15`. They share the partition of `zoe`.
    pub id: String,
    /// Generation: rises with every desired state of the same id, and the highest counts.
    pub rev: u64,
    /// JSON of one item of the command.
    pub body: String,
}

/// A desired state that its receiver has answered. The fields are those of [`DesiredState`].
#[derive(Debug)]
pub struct SentState<'a> {
    pub kind: &'a str,
    pub workspace: &'a Workspace,
    pub id: &'a str,
    pub rev: u64,
}

/// What happens to a refused desired state.
#[derive(Debug, PartialEq, Eq)]
pub enum AfterRefusal<I> {
    /// The row stays. The kernel sends it again rarely and reports it.
    Keep,
    /// The row is deleted: the receiver does not have the aggregate, so nothing waits for the desired state.
    Drop,
    /// The service decides about the refusal; the row is deleted after that commit.
    Decide(I),
}

#[derive(Debug)]
pub struct Changed<'a, D: Decider> {
    pub key: &'a D::Key,
    pub state: &'a D::State,
    /// The version that was read; 0 for a new aggregate.
    pub read_version: u64,
}

impl<'a, D: Decider> Changed<'a, D> {
    /// For the table of its kind of aggregate, which takes the state inside.
    #[must_use]
    pub const fn with_state<S>(&self, state: &'a S) -> ChangedState<'a, S, D::Key> {
        ChangedState {
            state,
            key: self.key,
            read_version: self.read_version,
        }
    }
}

/// One message: an input, or several that are committed together.
#[derive(Debug)]
pub struct DecodedCommand<I> {
    pub inputs: Vec<I>,
    /// Whether the reply is a list with one item per input.
    pub many: bool,
    /// All inputs are applied or none. If one is refused, the reply to each of the others is
    /// [`BATCH_ABORTED`](holdpoint_contracts::problem::BATCH_ABORTED).
    pub atomic: bool,
    pub idempotency_key: Option<IdempotencyKey>,
}

impl<I> DecodedCommand<I> {
    pub fn one(input: I, idempotency_key: Option<IdempotencyKey>) -> Self {
        Self {
            idempotency_key,
            many: false,
            ..Self::many(vec![input])
        }
    }

    /// Several inputs with separate outcomes.
    #[must_use]
    pub const fn many(inputs: Vec<I>) -> Self {
        Self {
            inputs,
            many: true,
            atomic: false,
            idempotency_key: None,
        }
    }

    /// Several inputs, of any aggregates, of which all are applied or none.
    #[must_use]
    pub fn atomic(inputs: Vec<I>, idempotency_key: Option<IdempotencyKey>) -> Self {
        Self {
            idempotency_key,
            atomic: true,
            ..Self::many(inputs)
        }
    }
}

/// A task whose panic ends the process.
pub(crate) const fn vital<S: Service>(part: &'static str) -> Vital {
    Vital {
        service: S::NAME,
        part,
    }
}
