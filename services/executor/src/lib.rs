//! The executor: owns agents, contacts, runs, their steps and their history.
//!
//! It decides in `domain`, translates in `inbound` and `outbound`, keeps rows in `store` and
//! answers questions in `queries`; the loop around all that is the kernel's.

pub mod domain;
mod inbound;
mod inline;
mod outbound;
mod people;
mod queries;
mod queues;
mod service;
mod store;
mod sweeps;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use holdpoint_bus::{BusError, StreamUse};
use holdpoint_kernel::{Deps, Handle, KernelError, Vital, serve_queries};
use holdpoint_store::{StoreError, migrate, open_readers};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use domain::{LeaseStatus, lease_status};
pub use inline::InlineTools;
pub use service::Executor;

/// Connections that answer queries.
const READERS: u32 = 4;

/// The executor could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ExecutorError {
    /// Its tables are not to be had.
    #[error("cannot prepare the executor's tables")]
    Store(#[from] StoreError),
    /// The bus refused.
    #[error("cannot attach the executor to the bus")]
    Bus(#[from] BusError),
    /// The kernel did not start.
    #[error("cannot start the executor")]
    Kernel(#[from] KernelError),
}

/// Starts the executor; it ends with `stop`, when `tracker` is empty. With `inline` it runs itself
/// what is idempotent and built in and nobody takes (S2-R7).
///
/// # Errors
/// [`ExecutorError`] when tables or bus are not to be had.
pub async fn start(
    deps: &Deps,
    inline: Option<Arc<dyn InlineTools>>,
    stop: CancellationToken,
    tracker: &TaskTracker,
) -> Result<Handle<Executor>, ExecutorError> {
    migrate::<holdpoint_migrations::executor::Migrator>(&deps.store).await?;
    // Each service makes its own streams. What goes to one that is not there yet waits in the outbox.
    deps.bus.provide_stream(StreamUse::Steps).await?;
    let service = Arc::new(Executor::new(deps.keys.clone(), deps.clock.clone()));
    people::catch_up(deps).await?;
    let handle = holdpoint_kernel::start(deps, Arc::clone(&service), stop.clone(), tracker).await?;
    let readers = open_readers(&deps.store, READERS).await?;
    people::keep(deps, &handle, &readers, stop.clone(), tracker);
    let (queues, bus, ending) = (Arc::clone(&service.queues), deps.bus.clone(), stop.clone());
    tracker.spawn(vital("queues").run(async move { queues.keep(bus, ending).await }));
    let sweeping = sweeps::Sweeping {
        handle: &handle,
        service: &service,
        db: &readers,
    };
    sweeps::start(&sweeping, &stop, tracker);
    if let Some(tools) = inline {
        inline::Inline::new(&service, &handle, &readers, tools).start(stop.clone(), tracker);
    }
    let queries = Arc::new(queries::ExecutorQueries::new(readers, deps.clock.clone()));
    serve_queries(&deps.bus, queries, stop, tracker).await?;
    Ok(handle)
}

/// A part whose panic ends the process: steps would not go on, and nothing would say so.
pub(crate) const fn vital(part: &'static str) -> Vital {
    Vital {
        service: "executor",
        part,
    }
}
