//! The handoff service as the kernel sees it: forwards to the core, the rows and the translation.

use bytes::Bytes;
use chrono::{DateTime, Utc};
use holdpoint_auth::Trust;
use holdpoint_bus::Outgoing;
use holdpoint_clock::Clock;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::subject::Parts;
use holdpoint_ids::Workspace;
use holdpoint_kernel::{
    AfterRefusal, Changed, Confirmed, Decision, Facts, Found, Outcome, RefusedWish, Request,
    Service, Wish,
};
use holdpoint_store::{StoreError, Transaction};

use crate::domain::{self, Aggregate, Answer, Effect, Fact, Input, Key, Need, Refusal, Step, Stop};
use crate::inbound::Reader;
use crate::{outbound, store};

/// The handoff service's core and rows, for the kernel.
#[derive(Debug)]
pub struct Handoff {
    /// Whose assertions count.
    pub(crate) trust: Trust,
    /// Says when a command came: assertions expire.
    pub(crate) clock: Clock,
}

impl Handoff {
    /// With whose assertions count, and the time that tells when they have expired.
    #[must_use]
    pub const fn new(trust: Trust, clock: Clock) -> Self {
        Self { trust, clock }
    }
}

impl Service for Handoff {
    const NAME: &'static str = holdpoint_contracts::handoff::SERVICE;
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
            Found::Absent => domain::Found::Absent,
            Found::Here(fact) => domain::Found::Here(fact),
        };
        match domain::decide(state, input, &look, now) {
            Ok(Step::Changed(change)) => Outcome::Decided(Decision {
                state: change.state,
                effects: change.effects,
                facts: change.facts,
                answer: change.answer,
            }),
            Ok(Step::Same(answer)) => Outcome::Unchanged(answer),
            Err(Stop::Need(needs)) => Outcome::Need(needs),
            Err(Stop::Refused(refusal)) => Outcome::Refused(refusal),
        }
    }

    fn aggregate(need: &Need) -> Option<Key> {
        match need {
            Need::User(workspace, name) => Some(Key::User(workspace.clone(), name.clone())),
            Need::Policy(workspace, name) => Some(Key::Policy(workspace.clone(), name.clone())),
            Need::Request(workspace, id) => Some(Key::Request(workspace.clone(), *id)),
            Need::Owners(_)
            | Need::Members(_)
            | Need::Role(..)
            | Need::Loads(_)
            | Need::Policies(_) => None,
        }
    }

    fn fact(state: &Aggregate) -> Fact {
        match state {
            Aggregate::User(user) => Fact::User(user.clone()),
            Aggregate::Policy(policy) => Fact::Policy(policy.clone()),
            Aggregate::Request(request) => Fact::Request(request.clone()),
        }
    }

    fn is_constant(need: &Need) -> bool {
        match need {
            Need::User(..)
            | Need::Owners(_)
            | Need::Members(_)
            | Need::Role(..)
            | Need::Loads(_)
            | Need::Policy(..)
            | Need::Policies(_)
            | Need::Request(..) => false,
        }
    }

    fn version(state: &Aggregate) -> u64 {
        match state {
            Aggregate::Request(request) => request.version,
            Aggregate::User(user) => user.version,
            Aggregate::Policy(policy) => policy.version,
        }
    }

    /// A request waits for hours; users and policies are few.
    fn is_hot(state: &Aggregate) -> bool {
        match state {
            Aggregate::Request(_) => false,
            Aggregate::User(_) | Aggregate::Policy(_) => true,
        }
    }

    fn problem(&self, refusal: &Refusal) -> Problem {
        refusal.problem()
    }

    fn decode(&self, parts: &Parts, body: &[u8]) -> Result<Request<Input>, Problem> {
        let reader = Reader {
            parts,
            trust: &self.trust,
            now: self.clock.now(),
        };
        reader.decode(body)
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

    /// Everything that it wants of others is a wish.
    fn outbound(&self, _: &[Effect]) -> Vec<Outgoing> {
        Vec::new()
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
        outbound::refused(wish)
    }

    fn told_as_problem(answer: &Answer) -> Option<Problem> {
        match answer {
            Answer::Late(problem) => Some((**problem).clone()),
            Answer::Wish(_)
            | Answer::Timer(_)
            | Answer::Noted
            | Answer::Request(_)
            | Answer::Decided(_)
            | Answer::One(_)
            | Answer::User(_)
            | Answer::Policy(_) => None,
        }
    }

    fn nudges(&self, effects: &[Effect]) -> Vec<(String, Bytes)> {
        outbound::nudges(effects)
    }
}
