//! The executor as the kernel sees it: forwards to the core, the rows and the translation.

use std::sync::Arc;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use holdpoint_auth::Keys;
use holdpoint_bus::Outgoing;
use holdpoint_clock::Clock;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::run::RunStatus;
use holdpoint_contracts::subject::Parts;
use holdpoint_ids::Workspace;
use holdpoint_kernel::{
    AfterRefusal, Changed, Confirmed, Decision, Facts, Found, Outcome, RefusedWish, Request,
    Service, Wish,
};
use holdpoint_store::{StoreError, Transaction};

use crate::domain::{
    self, Aggregate, Answer, Effect, Fact, Input, Key, Need, NodeInput, Refusal, RunFact, Verdict,
};
use crate::queues::Queues;
use crate::sweeps::PagesToCome;
use crate::{inbound, outbound, store};

/// The executor's core and rows, for the kernel.
#[derive(Debug, Clone)]
pub struct Executor {
    /// Whose word counts, and what signs the tokens of steps.
    pub(crate) keys: Keys,
    /// When an assertion has expired.
    pub(crate) clock: Clock,
    /// Whether runs are on their way to what was commanded for many.
    pub(crate) pages: Arc<PagesToCome>,
    /// The queues of the tools that nodes offer.
    pub(crate) queues: Arc<Queues>,
}

impl Executor {
    /// With whose word counts, and the time that tells when it has expired.
    #[must_use]
    pub fn new(keys: Keys, clock: Clock) -> Self {
        Self {
            keys,
            clock,
            pages: Arc::default(),
            queues: Arc::default(),
        }
    }
}

impl Service for Executor {
    const NAME: &'static str = holdpoint_contracts::executor::SERVICE;
    type Key = Key;
    type State = Aggregate;
    type Input = Input;
    type Need = Need;
    type Fact = Fact;
    type Effect = Effect;
    type Refusal = Refusal;
    type Answer = Answer;

    fn key(input: &Input) -> Key {
        input.key()
    }

    fn decide(
        &self,
        state: Option<&Aggregate>,
        input: &Input,
        facts: &Facts<'_, Self>,
        now: DateTime<Utc>,
    ) -> Outcome<Self> {
        let look = |need: &Need| match facts.look(need) {
            Found::Unknown => domain::Found::Unknown,
            // A forgotten contact is as if it had never been there.
            Found::Here(Fact::Contact(value)) if value.is_null() => domain::Found::Absent,
            Found::Absent => domain::Found::Absent,
            Found::Here(fact) => domain::Found::Here(fact),
        };
        match domain::decide(state, input, &look, now) {
            Verdict::Decided(decision) => {
                let domain::Decision {
                    state,
                    effects,
                    facts,
                    answer,
                } = *decision;
                Outcome::Decided(Decision {
                    state,
                    effects,
                    facts,
                    answer,
                })
            }
            Verdict::Unchanged(answer) => Outcome::Unchanged(answer),
            Verdict::Need(needs) => Outcome::Need(needs),
            Verdict::Refused(refusal) => Outcome::Refused(refusal),
        }
    }

    fn aggregate(need: &Need) -> Option<Key> {
        match need {
            Need::Agent(workspace, agent) => Some(Key::Agent(workspace.clone(), agent.clone())),
            Need::Contact(workspace, contact) => {
                Some(Key::Contact(workspace.clone(), contact.clone()))
            }
            Need::Workspace(workspace) => Some(Key::Workspace(workspace.clone())),
            Need::Run(run) => Some(Key::Run(*run)),
            Need::Tool(workspace, name) => Some(Key::Tool(workspace.clone(), name.clone())),
            Need::Plan(..)
            | Need::Value(..)
            | Need::Request(..)
            | Need::Activities(..)
            | Need::User(..) => None,
        }
    }

    fn fact(state: &Aggregate) -> Fact {
        match state {
            Aggregate::Agent(agent) => Fact::Agent(Arc::new(agent.clone())),
            Aggregate::Contact(contact) if contact.deleted => Fact::Contact(Arc::default()),
            Aggregate::Contact(contact) => contact.fact(),
            Aggregate::Workspace(scope) => Fact::Workspace(Arc::new(scope.clone())),
            Aggregate::Run(run) => Fact::Run(Arc::new(RunFact::of(run))),
            Aggregate::Tool(tool) => Fact::Tool(Arc::new(tool.clone())),
            Aggregate::Node(_) | Aggregate::Users => Fact::Nothing,
        }
    }

    fn is_constant(need: &Need) -> bool {
        match need {
            Need::Plan(..) => true,
            Need::Agent(..)
            | Need::Contact(..)
            | Need::Value(..)
            | Need::Workspace(_)
            | Need::Run(_)
            | Need::Request(..)
            | Need::Activities(..)
            | Need::Tool(..)
            | Need::User(..) => false,
        }
    }

    fn version(state: &Aggregate) -> u64 {
        match state {
            Aggregate::Agent(agent) => agent.version,
            Aggregate::Contact(contact) => contact.version,
            Aggregate::Run(run) => run.version,
            Aggregate::Workspace(scope) => scope.version,
            Aggregate::Node(node) => node.version,
            Aggregate::Tool(tool) => tool.version,
            Aggregate::Users => 1,
        }
    }

    fn is_hot(state: &Aggregate) -> bool {
        match state {
            Aggregate::Agent(_)
            | Aggregate::Workspace(_)
            | Aggregate::Node(_)
            | Aggregate::Tool(_) => true,
            Aggregate::Contact(_) | Aggregate::Users => false,
            // A waiting run is left alone for long; the next thing that happens loads it.
            Aggregate::Run(run) => matches!(run.status(), RunStatus::Queued | RunStatus::Running),
        }
    }

    fn remembers_absence(key: &Key) -> bool {
        match key {
            // Every decision on a run looks whether its workspace is paused, every hand-out for its
            // tool; most workspaces were never paused, and most tools came with their nodes.
            Key::Workspace(_) | Key::Tool(..) => true,
            Key::Agent(..)
            | Key::Contact(..)
            | Key::Run(_)
            | Key::Node(_)
            | Key::Users
            | Key::Unknown(_) => false,
        }
    }

    fn problem(&self, refusal: &Refusal) -> Problem {
        refusal.problem()
    }

    fn decode(&self, parts: &Parts, body: &[u8]) -> Result<Request<Input>, Problem> {
        let request = inbound::decode(parts, body, &self.keys, self.clock.now())?;
        for input in &request.inputs {
            if let Input::Node {
                input: NodeInput::Beat { tools, .. },
                ..
            } = input
            {
                self.queues.want(tools);
            }
        }
        Ok(request)
    }

    async fn load(
        &self,
        db: &Transaction,
        keys: &[Key],
    ) -> Result<Vec<(Key, Aggregate)>, StoreError> {
        store::load(db, keys).await
    }

    async fn find(
        &self,
        db: &Transaction,
        needs: &[Need],
    ) -> Result<Vec<(Need, Fact)>, StoreError> {
        store::find(db, needs).await
    }

    async fn save(
        &self,
        db: &Transaction,
        changed: &[Changed<'_, Self>],
        now: DateTime<Utc>,
    ) -> Result<Vec<Key>, StoreError> {
        store::save(db, changed, now).await
    }

    async fn record(
        &self,
        db: &Transaction,
        effects: &[Effect],
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        store::record(db, effects, now).await
    }

    fn outbound(&self, effects: &[Effect]) -> Vec<Outgoing> {
        outbound::messages(effects, &self.keys.steps)
    }

    fn wishes(&self, effects: &[Effect]) -> Vec<Wish> {
        outbound::wishes(effects)
    }

    fn wish_message(
        &self,
        kind: &str,
        workspace: &Workspace,
        bodies: &[&str],
    ) -> Result<Outgoing, serde_json::Error> {
        outbound::wish_message(kind, workspace, bodies)
    }

    fn confirmed(&self, wish: &Confirmed<'_>) -> Option<Input> {
        outbound::confirmed(wish)
    }

    fn refused(&self, wish: &RefusedWish<'_>) -> AfterRefusal<Input> {
        outbound::refused(wish, self.clock.now())
    }

    fn incident(&self, subject: &str, body: &[u8], reason: &str) -> Vec<Input> {
        inbound::incident(subject, body, reason)
    }

    fn incident_of(&self, input: &Input, reason: &str) -> Option<Input> {
        inbound::incident_of(input, reason)
    }

    fn nudges(&self, effects: &[Effect]) -> Vec<(String, Bytes)> {
        if effects
            .iter()
            .any(|effect| matches!(effect, Effect::PagesToCome))
        {
            self.pages.begin();
        }
        outbound::nudges(effects)
    }
}
