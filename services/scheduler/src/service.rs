//! The scheduler as the kernel sees it: forwards to the core, the rows and the translation.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use holdpoint_bus::Outgoing;
use holdpoint_clock::Clock;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::subject::Parts;
use holdpoint_ids::Workspace;
use holdpoint_kernel::{
    AfterRefusal, Changed, Decision, Facts, Outcome, RefusedWish, Request, Service, Wish,
};
use holdpoint_store::{StoreError, Transaction};

use crate::arming::Arming;
use crate::domain::{self, Alarm, Answer, Effect, Input, Key, Phase};
use crate::{inbound, outbound, store};

/// The scheduler's core and rows, for the kernel.
#[derive(Debug)]
pub struct Scheduler {
    pub(crate) arming: Arc<Arming>,
}

impl Scheduler {
    /// With nothing armed.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self {
            arming: Arc::new(Arming::new(clock)),
        }
    }
}

impl Service for Scheduler {
    const NAME: &'static str = holdpoint_contracts::scheduler::SERVICE;
    type Key = Key;
    type State = Alarm;
    type Input = Input;
    type Need = Infallible;
    type Fact = ();
    type Effect = Effect;
    type Refusal = Infallible;
    type Answer = Answer;

    fn key(input: &Input) -> Key {
        input.key().clone()
    }

    fn decide(
        &self,
        state: Option<&Alarm>,
        input: &Input,
        _: &Facts<'_, Self>,
        now: DateTime<Utc>,
    ) -> Outcome<Self> {
        let verdict = domain::decide(state, input, now);
        match verdict.change {
            None => Outcome::Unchanged(verdict.answer),
            Some((state, effects)) => Outcome::Decided(Decision {
                state,
                effects,
                facts: Vec::new(),
                answer: verdict.answer,
            }),
        }
    }

    fn aggregate(need: &Infallible) -> Option<Key> {
        match *need {}
    }

    fn fact(_: &Alarm) {}

    fn is_constant(need: &Infallible) -> bool {
        match *need {}
    }

    fn version(state: &Alarm) -> u64 {
        state.version
    }

    fn is_hot(state: &Alarm) -> bool {
        matches!(state.phase, Phase::Pending(_))
    }

    fn problem(&self, refusal: &Infallible) -> Problem {
        match *refusal {}
    }

    fn decode(&self, parts: &Parts, body: &[u8]) -> Result<Request<Input>, Problem> {
        inbound::decode(parts, body)
    }

    async fn load(&self, db: &Transaction, keys: &[Key]) -> Result<Vec<(Key, Alarm)>, StoreError> {
        let alarms = store::load(db, keys).await?;
        Ok(alarms
            .into_iter()
            .map(|alarm| (alarm.key.clone(), alarm))
            .collect())
    }

    async fn find(
        &self,
        _: &Transaction,
        _: &[Infallible],
    ) -> Result<Vec<(Infallible, ())>, StoreError> {
        Ok(Vec::new())
    }

    async fn save(
        &self,
        db: &Transaction,
        changed: &[Changed<'_, Self>],
        now: DateTime<Utc>,
    ) -> Result<Vec<Key>, StoreError> {
        let alarms: Vec<_> = changed
            .iter()
            .map(|one| (one.state, one.read_version))
            .collect();
        store::save(db, &alarms, now).await
    }

    async fn record(
        &self,
        _: &Transaction,
        _: &[Effect],
        _: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        Ok(())
    }

    fn outbound(&self, effects: &[Effect]) -> Vec<Outgoing> {
        self.arming.messages(outbound::to_arm(effects))
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

    fn refused(&self, wish: &RefusedWish<'_>) -> AfterRefusal<Input> {
        outbound::refused(wish)
    }

    /// Sends nothing. It is called after the commit, when the outbox has the schedules for good:
    /// only then do their buckets count as armed.
    fn nudges(&self, effects: &[Effect]) -> Vec<(String, Bytes)> {
        self.arming.armed(outbound::to_arm(effects));
        Vec::new()
    }
}
