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
    Acknowledged, AfterRefusal, Changed, DecodedCommand, DesiredState, Outbound, RefusedState,
    Service, Store,
};
use holdpoint_store::{StoreError, Transaction};

use crate::domain::{Aggregate, Effect, Fact, HandoffDomain, Input, Key, Need};
use crate::inbound::Reader;
use crate::{outbound, store};

/// The handoff service's core and rows, for the kernel.
#[derive(Debug)]
pub struct Handoff {
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
    type Domain = HandoffDomain;

    fn decode(&self, parts: &Parts, body: &[u8]) -> Result<DecodedCommand<Input>, Problem> {
        let reader = Reader {
            parts,
            trust: &self.trust,
            now: self.clock.now(),
        };
        reader.decode(body)
    }
}

impl Store<HandoffDomain> for Handoff {
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
        changed: &[Changed<'_, HandoffDomain>],
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

impl Outbound<HandoffDomain> for Handoff {
    /// Everything that it wants of others is a desired state.
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

    fn nudges(&self, effects: &[Effect]) -> Vec<(String, Bytes)> {
        outbound::nudges(effects)
    }
}
