//! The notification service as the kernel sees it: forwards to the core, the rows and the translation.

use std::sync::Arc;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use holdpoint_auth::Trust;
use holdpoint_bus::Outgoing;
use holdpoint_clock::Clock;
use holdpoint_contracts::notification::Wait;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::subject::Parts;
use holdpoint_ids::Workspace;
use holdpoint_kernel::{
    AfterRefusal, Changed, Confirmed, Decision, Facts, Found, Outcome, RefusedWish, Request,
    Service, Wish,
};
use holdpoint_store::{StoreError, Transaction};
use holdpoint_targets::TargetPolicy;

use crate::domain::{self, Aggregate, Answer, Effect, Fact, Input, Key, Need, Refusal, Step, Stop};
use crate::inbound::Reader;
use crate::sending::{Jobs, Post, PublicUrl};
use crate::sweeps::Wake;
use crate::{outbound, store};

/// The notification service's core and rows, for the kernel.
#[derive(Debug)]
pub struct Notification {
    /// Whose assertions count.
    pub(crate) trust: Trust,
    /// Which addresses webhooks may have.
    pub(crate) targets: TargetPolicy,
    /// Says when a command came: assertions expire.
    pub(crate) clock: Clock,
    /// Wakes the sweep that tells people.
    pub(crate) telling: Arc<Wake>,
    /// Wakes the sweep that hands out deliveries.
    pub(crate) delivering: Arc<Wake>,
    /// Sends what was handed out.
    pub(crate) post: Arc<Post>,
}

impl Notification {
    /// Decides whose assertions `trust` has signed; what leaves comes out of the second.
    #[must_use]
    pub fn new(
        trust: Trust,
        targets: TargetPolicy,
        clock: Clock,
        public_url: PublicUrl,
    ) -> (Self, Jobs) {
        let (post, jobs) = Post::new(public_url);
        let core = Self {
            trust,
            targets,
            clock,
            telling: Arc::default(),
            delivering: Arc::default(),
            post,
        };
        (core, jobs)
    }
}

impl Service for Notification {
    const NAME: &'static str = holdpoint_contracts::notification::SERVICE;
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
            Need::Members { .. }
            | Need::Person(..)
            | Need::Course(..)
            | Need::Webhooks(_)
            | Need::Watchers { .. }
            | Need::Watching(..)
            | Need::Unread { .. } => None,
        }
    }

    fn fact(_: &Aggregate) -> Fact {
        Fact::Other
    }

    fn is_constant(need: &Need) -> bool {
        match need {
            Need::Members { .. }
            | Need::Person(..)
            | Need::Course(..)
            | Need::Webhooks(_)
            | Need::Watchers { .. }
            | Need::Watching(..)
            | Need::Unread { .. } => false,
        }
    }

    fn version(state: &Aggregate) -> u64 {
        match state {
            Aggregate::Note(note) => note.version,
            Aggregate::End(end) => end.version,
            Aggregate::Copy(copy) => copy.version(),
            Aggregate::Delivery(delivery) => delivery.version,
            Aggregate::Preferences(preferences) => preferences.version,
            Aggregate::Webhook(webhook) => webhook.version,
            Aggregate::Watch(watch) => watch.version,
            Aggregate::Secret(_) | Aggregate::Users => 1,
        }
    }

    /// A fact whose people are still being told is soon decided again.
    fn is_hot(state: &Aggregate) -> bool {
        match state {
            Aggregate::Note(note) => note.fan != domain::Fan::Done,
            Aggregate::End(end) => end.fan != domain::Fan::Done,
            // Claimed: what came of it is soon told. What waits longer is read anew each time: a person
            // may have changed when it is due, beside its state.
            Aggregate::Delivery(one) => {
                let is_out = |waits: &Wait| *waits == Wait::Answer;
                matches!(&one.phase, domain::Phase::Pending { waits, .. } if is_out(waits))
            }
            Aggregate::Copy(_)
            | Aggregate::Secret(_)
            | Aggregate::Preferences(_)
            | Aggregate::Webhook(_)
            | Aggregate::Watch(_)
            | Aggregate::Users => false,
        }
    }

    fn problem(&self, refusal: &Refusal) -> Problem {
        refusal.problem()
    }

    fn decode(&self, parts: &Parts, body: &[u8]) -> Result<Request<Input>, Problem> {
        let reader = Reader {
            parts,
            trust: &self.trust,
            targets: self.targets,
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

    /// It publishes nothing but wishes.
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

    /// Called after the commit: whoever has more to do begins at once.
    fn nudges(&self, effects: &[Effect]) -> Vec<(String, Bytes)> {
        if effects.contains(&Effect::More) {
            self.telling.begin();
        }
        let mut is_new = false;
        for effect in effects {
            match effect {
                Effect::Deliver { .. } | Effect::FollowUp { .. } | Effect::Reconsider { .. } => {
                    is_new = true;
                }
                Effect::Send { key, attempt } => self.post.send(key, *attempt),
                Effect::Copies { .. }
                | Effect::Notice { .. }
                | Effect::More
                | Effect::WatchEnds { .. }
                | Effect::Settle { .. }
                | Effect::Read { .. }
                | Effect::ReadAll { .. }
                | Effect::Forget { .. }
                | Effect::Users(_) => {}
            }
        }
        if is_new {
            self.delivering.begin();
        }
        outbound::nudges(effects)
    }
}
