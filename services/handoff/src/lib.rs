//! The handoff service: owns people (users, roles) and what is asked of them (requests: holds of
//! runs on a person, and holds that stand alone).
//!
//! It decides in `domain`, translates in `inbound` and `outbound`, keeps rows in `store` and answers
//! questions in `queries`; the loop around all that is the kernel's. It never knows what a run is:
//! the executor says which holds it wants, and is told how they ended.

pub mod domain;
mod inbound;
mod outbound;
mod queries;
mod service;
mod store;
mod sweeps;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use holdpoint_bus::BusError;
use holdpoint_kernel::{Deps, Handle, KernelError, serve_queries, start_sweep};
use holdpoint_store::{StoreError, migrate, open_readers};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use service::Handoff;

/// Connections that answer queries.
const READERS: u32 = 4;

/// The handoff service could not be started.
#[derive(Debug, thiserror::Error)]
pub enum HandoffError {
    /// Its tables are not to be had.
    #[error("cannot prepare the handoff service's tables")]
    Store(#[from] StoreError),
    /// The bus refused.
    #[error("cannot attach the handoff service to the bus")]
    Bus(#[from] BusError),
    /// The kernel did not start.
    #[error("cannot start the handoff service")]
    Kernel(#[from] KernelError),
}

/// Starts the handoff service; it ends with `stop`, when `tracker` is empty.
///
/// # Errors
/// [`HandoffError`] when tables or bus are not to be had.
pub async fn start(
    deps: &Deps,
    stop: CancellationToken,
    tracker: &TaskTracker,
) -> Result<Handle<Handoff>, HandoffError> {
    migrate::<holdpoint_migrations::handoff::Migrator>(&deps.store).await?;
    let service = Arc::new(Handoff {
        trust: deps.keys.trust.clone(),
        clock: deps.clock.clone(),
    });
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
