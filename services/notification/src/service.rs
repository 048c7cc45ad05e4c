//! The notification service as the kernel sees it: forwards to the core, the rows and the translation.

use std::sync::Arc;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use holdpoint_auth::Trust;
use holdpoint_bus::Outgoing;
use holdpoint_clock::Clock;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::subject::Parts;
use holdpoint_egress::EgressPolicy;
use holdpoint_ids::Workspace;
use holdpoint_kernel::{
    Acknowledged, AfterRefusal, Changed, DecodedCommand, DesiredState, Outbound, RefusedState,
    Service, Store,
};
use holdpoint_store::{StoreError, Transaction};

use crate::domain::{Aggregate, Effect, Fact, Input, Key, Need, NotificationDomain};
use crate::inbound::Reader;
use crate::sending::{Jobs, Post, PublicUrl};
use crate::sweeps::Wake;
use crate::{outbound, store};

/// The notification service's core and rows, for the kernel.
#[derive(Debug)]
pub struct Notification {
    pub(crate) trust: Trust,
    /// Which addresses webhooks may have.
    pub(crate) targets: EgressPolicy,
    /// Says when a command came: assertions expire.
    pub(crate) clock: Clock,
    /// Wakes the sweep that tells people.
    pub(crate) telling: Arc<Wake>,
    /// Wakes the sweep that dispatches deliveries.
    pub(crate) delivering: Arc<Wake>,
    /// Sends what was dispatched.
    pub(crate) post: Arc<Post>,
}

impl Notification {
    /// Decides whose assertions `trust` has signed; what leaves comes out of the second.
    #[must_use]
    pub fn new(
        trust: Trust,
        targets: EgressPolicy,
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
    type Domain = NotificationDomain;

    fn decode(&self, parts: &Parts, body: &[u8]) -> Result<DecodedCommand<Input>, Problem> {
        let reader = Reader {
            parts,
            trust: &self.trust,
            targets: self.targets,
            now: self.clock.now(),
        };
        reader.decode(body)
    }
}

impl Store<NotificationDomain> for Notification {
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
        changed: &[Changed<'_, NotificationDomain>],
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
}

impl Outbound<NotificationDomain> for Notification {
    /// It publishes nothing but desired states.
    fn messages(&self, _: &[Effect]) -> Vec<Outgoing> {
        Vec::new()
    }

    fn desired_states(&self, effects: &[Effect]) -> Vec<DesiredState> {
        outbound::desired_states(effects)
    }

    fn desired_state_command(
        &self,
        kind: &str,
        workspace: &Workspace,
        bodies: &[&str],
    ) -> Result<Outgoing, serde_json::Error> {
        outbound::desired_state_command(kind, workspace, bodies)
    }

    fn acknowledged(&self, desired_state: &Acknowledged<'_>) -> Option<Input> {
        outbound::confirmed(desired_state)
    }

    fn refused(&self, desired_state: &RefusedState<'_>) -> AfterRefusal<Input> {
        outbound::refused(desired_state)
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
                | Effect::WatchRunEnds { .. }
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
