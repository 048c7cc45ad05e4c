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
    AfterRefusal, Changed, DecodedCommand, DesiredState, Outbound, RefusedState, Service, Store,
};
use holdpoint_store::{StoreError, Transaction};

use crate::arming::Arming;
use crate::domain::{Effect, Input, Key, SchedulerDomain, Timer};
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
    type Domain = SchedulerDomain;

    fn decode(&self, parts: &Parts, body: &[u8]) -> Result<DecodedCommand<Input>, Problem> {
        inbound::decode(parts, body)
    }
}

impl Store<SchedulerDomain> for Scheduler {
    async fn load(&self, db: &Transaction, keys: &[Key]) -> Result<Vec<(Key, Timer)>, StoreError> {
        let timers = store::load(db, keys).await?;
        Ok(timers
            .into_iter()
            .map(|timer| (timer.key.clone(), timer))
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
        changed: &[Changed<'_, SchedulerDomain>],
        now: DateTime<Utc>,
    ) -> Result<Vec<Key>, StoreError> {
        let timers: Vec<_> = changed
            .iter()
            .map(|one| (one.state, one.read_version))
            .collect();
        store::save(db, &timers, now).await
    }

    async fn record(
        &self,
        _: &Transaction,
        _: &[Effect],
        _: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Outbound<SchedulerDomain> for Scheduler {
    fn messages(&self, effects: &[Effect]) -> Vec<Outgoing> {
        self.arming.messages(outbound::to_arm(effects))
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

    fn refused(&self, desired_state: &RefusedState<'_>) -> AfterRefusal<Input> {
        outbound::refused(desired_state)
    }

    /// Sends nothing. It is called after the commit, when the outbox has the schedules for good:
    /// only then do their buckets count as armed.
    fn nudges(&self, effects: &[Effect]) -> Vec<(String, Bytes)> {
        self.arming.armed(outbound::to_arm(effects));
        Vec::new()
    }
}
