//! The executor as the kernel sees it: forwards to the core, the rows and the translation.

use bytes::Bytes;
use chrono::{DateTime, Utc};
use holdpoint_bus::Outgoing;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::run::RunStatus;
use holdpoint_contracts::subject::Parts;
use holdpoint_kernel::{Changed, Decision, Facts, Found, Outcome, Request, Service};
use holdpoint_store::StoreError;
use sea_orm::DatabaseTransaction;

use crate::domain::{self, Aggregate, Answer, Effect, Fact, Input, Key, Need, Refusal, Verdict};
use crate::{inbound, outbound, store};

/// The executor's core and rows, for the kernel.
#[derive(Debug, Clone, Copy)]
pub struct Executor;

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
            Need::Plan(..) | Need::Value(..) => None,
        }
    }

    fn fact(state: &Aggregate) -> Fact {
        match state {
            Aggregate::Agent(agent) => Fact::Agent(std::sync::Arc::new(agent.clone())),
            Aggregate::Contact(contact) if contact.deleted => {
                Fact::Contact(std::sync::Arc::default())
            }
            Aggregate::Contact(contact) => contact.fact(),
            Aggregate::Run(run) => Fact::Run(run.status()),
            Aggregate::Workspace(scope) => Fact::Workspace(std::sync::Arc::new(scope.clone())),
        }
    }

    fn is_constant(need: &Need) -> bool {
        match need {
            Need::Plan(..) => true,
            Need::Agent(..) | Need::Contact(..) | Need::Value(..) | Need::Workspace(_) => false,
        }
    }

    fn version(state: &Aggregate) -> u64 {
        match state {
            Aggregate::Agent(agent) => agent.version,
            Aggregate::Contact(contact) => contact.version,
            Aggregate::Run(run) => run.version,
            Aggregate::Workspace(scope) => scope.version,
        }
    }

    fn is_hot(state: &Aggregate) -> bool {
        match state {
            Aggregate::Agent(_) | Aggregate::Workspace(_) => true,
            Aggregate::Contact(_) => false,
            // A waiting run is left alone for long; the next thing that happens loads it.
            Aggregate::Run(run) => matches!(run.status(), RunStatus::Queued | RunStatus::Running),
        }
    }

    fn problem(&self, refusal: &Refusal) -> Problem {
        refusal.problem()
    }

    fn decode(&self, parts: &Parts, body: &[u8]) -> Result<Request<Input>, Problem> {
        inbound::decode(parts, body)
    }

    async fn load(
        &self,
        db: &DatabaseTransaction,
        keys: &[Key],
    ) -> Result<Vec<(Key, Aggregate)>, StoreError> {
        store::load(db, keys).await
    }

    async fn find(
        &self,
        db: &DatabaseTransaction,
        needs: &[Need],
    ) -> Result<Vec<(Need, Fact)>, StoreError> {
        store::find(db, needs).await
    }

    async fn save(
        &self,
        db: &DatabaseTransaction,
        changed: &[Changed<'_, Self>],
        now: DateTime<Utc>,
    ) -> Result<Vec<Key>, StoreError> {
        store::save(db, changed, now).await
    }

    async fn record(
        &self,
        db: &DatabaseTransaction,
        effects: &[Effect],
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        store::record(db, effects, now).await
    }

    fn outbound(&self, effects: &[Effect]) -> Vec<Outgoing> {
        outbound::messages(effects)
    }

    fn nudges(&self, effects: &[Effect]) -> Vec<(String, Bytes)> {
        outbound::nudges(effects)
    }
}
