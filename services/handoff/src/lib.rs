//! The handoff service: owns users, roles, policies and requests (holds of runs on a person, and standalone
//! holds).
//!
//! It decides in `domain`, translates in `inbound` and `outbound`, keeps rows in `store` and reads them in
//! `queries`; the kernel runs the loop. It must never know what a run is: the executor sends the holds that
//! it wants and gets their ends.

pub mod domain;
mod inbound;
mod outbound;
mod queries;
mod store;
mod sweeps;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use holdpoint_auth::Trust;
use holdpoint_bus::BusError;
use holdpoint_clock::Clock;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::subject::Parts;
use holdpoint_kernel::{
    DecodedCommand, Deps, Handle, KernelError, Service, serve_queries, start_sweep,
};
use holdpoint_store::{StoreError, migrate, open_readers};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use domain::{HandoffDomain, Input};

/// Connections for queries.
const READERS: u32 = 4;

/// The handoff service could not be started.
#[derive(Debug, thiserror::Error)]
pub enum HandoffError {
    #[error("cannot prepare the handoff service's tables")]
    Store(#[from] StoreError),
    #[error("cannot attach the handoff service to the bus")]
    Bus(#[from] BusError),
    #[error("cannot start the handoff service")]
    Kernel(#[from] KernelError),
}

/// The handoff service's domain, store and outbound messages, for the kernel.
#[derive(Debug)]
pub struct Handoff {
    /// Keys that sign valid assertions.
    trust: Trust,
    /// Determines whether an assertion has expired.
    clock: Clock,
}

impl Handoff {
    /// Trusts these keys by this clock.
    #[must_use]
    pub const fn new(trust: Trust, clock: Clock) -> Self {
        Self { trust, clock }
    }
}

impl Service for Handoff {
    const NAME: &'static str = holdpoint_contracts::handoff::SERVICE;
    type Domain = HandoffDomain;

    fn decode(&self, parts: &Parts, body: &[u8]) -> Result<DecodedCommand<Input>, Problem> {
        let reader = inbound::Reader {
            parts,
            trust: &self.trust,
            now: self.clock.now(),
        };
        reader.decode(body)
    }
}

/// Starts the handoff service. It ends after `stop`, when `tracker` is empty.
///
/// # Errors
/// [`HandoffError`] if tables, bus or kernel fail.
pub async fn start(
    deps: &Deps,
    stop: CancellationToken,
    tracker: &TaskTracker,
) -> Result<Handle<Handoff>, HandoffError> {
    migrate::<holdpoint_migrations::handoff::Migrator>(&deps.store).await?;
    let service = Arc::new(Handoff::new(deps.keys.trust.clone(), deps.clock.clone()));
    let handle = holdpoint_kernel::start(deps, service, stop.clone(), tracker).await?;
    let readers = open_readers(&deps.store, READERS).await?;
    start_sweep(
        &handle,
        readers.clone(),
        sweeps::Reassignment::default(),
        stop.clone(),
        tracker,
    );
    let queries = Arc::new(queries::HandoffQueries::new(readers, deps.clock.clone()));
    serve_queries(&deps.bus, queries, stop, tracker).await?;
    Ok(handle)
}
