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
mod service;
mod store;
mod sweeps;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use holdpoint_bus::BusError;
use holdpoint_kernel::{Deps, Handle, KernelError, serve_queries, start_retention, start_sweep};
use holdpoint_store::{StoreError, migrate, open_readers};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use queries::HandoffQueries;

pub use service::Handoff;

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
    let reassignment = Arc::clone(&service.reassignment);
    let handle = holdpoint_kernel::start(deps, service, stop.clone(), tracker).await?;
    let readers = open_readers(&deps.store, READERS).await?;
    let sweep = sweeps::Reassignment::new(Arc::clone(&reassignment));
    let trigger = start_sweep(&handle, readers.clone(), sweep, stop.clone(), tracker);
    reassignment.connect(trigger, handle.status());
    start_retention(&handle, deps, &readers, &stop, tracker);
    let queries = Arc::new(HandoffQueries {
        db: readers,
        clock: deps.clock.clone(),
    });
    serve_queries(&deps.bus, queries, stop, tracker).await?;
    Ok(handle)
}
