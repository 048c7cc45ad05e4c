//! The executor as the kernel sees it: forwards to the core, the rows and the translation.

use std::sync::Arc;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use holdpoint_auth::Keys;
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

use crate::domain::{Aggregate, Effect, ExecutorDomain, Fact, Input, Key, Need, NodeInput};
use crate::queues::Queues;
use crate::sweeps::ScopeSyncPending;
use crate::{inbound, outbound, store};

/// The executor's core and rows, for the kernel.
#[derive(Debug, Clone)]
pub struct Executor {
    /// Whose word counts, and what signs the tokens of steps.
    pub(crate) keys: Keys,
    /// When an assertion has expired.
    pub(crate) clock: Clock,
    /// Whether runs are on their way to what was commanded for many.
    pub(crate) pages: Arc<ScopeSyncPending>,
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
    type Domain = ExecutorDomain;

    fn decode(&self, parts: &Parts, body: &[u8]) -> Result<DecodedCommand<Input>, Problem> {
        let request = inbound::decode(parts, body, &self.keys, self.clock.now())?;
        for input in &request.inputs {
            if let Input::Node {
                input: NodeInput::Heartbeat { tools, .. },
                ..
            } = input
            {
                self.queues.state(tools);
            }
        }
        Ok(request)
    }

    fn incident(&self, subject: &str, body: &[u8], reason: &str) -> Vec<Input> {
        inbound::incident(subject, body, reason)
    }

    fn incident_of(&self, input: &Input, reason: &str) -> Option<Input> {
        inbound::incident_of(input, reason)
    }
}

impl Store<ExecutorDomain> for Executor {
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
        changed: &[Changed<'_, ExecutorDomain>],
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

impl Outbound<ExecutorDomain> for Executor {
    fn messages(&self, effects: &[Effect]) -> Vec<Outgoing> {
        outbound::messages(effects, &self.keys.steps)
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
        outbound::refused(desired_state, self.clock.now())
    }

    fn nudges(&self, effects: &[Effect]) -> Vec<(String, Bytes)> {
        if effects
            .iter()
            .any(|effect| matches!(effect, Effect::ScopeSyncPending))
        {
            self.pages.begin();
        }
        outbound::nudges(effects)
    }
}
