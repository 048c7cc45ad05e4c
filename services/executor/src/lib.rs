//! The executor: owns agents, contacts, runs, their steps and their history.
//!
//! `domain` decides, `inbound` and `outbound` translate, `store` keeps rows and `queries` answers reads.
//! The kernel owns the loop around them.

pub mod domain;
mod executor;
mod inbound;
mod inline_worker;
mod outbound;
mod queries;
mod queues;
mod store;
mod sweeps;
mod user_directory;
mod woken_keys;
mod workspace_shares;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use holdpoint_bus::{BusError, StreamUse};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::subject::Parts;
use holdpoint_kernel::{
    DecodedCommand, Deps, Handle, KernelError, Service, serve_queries, start_retention,
};
use holdpoint_store::{StoreError, migrate, open_readers};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use domain::{ExecutorDomain, Input, NodeInput};
use executor::vital;

pub use domain::{LeaseStatus, lease_status};
pub use executor::Executor;
pub use inline_worker::InlineTools;

impl Service for Executor {
    const NAME: &'static str = holdpoint_contracts::executor::SERVICE;
    type Domain = ExecutorDomain;

    fn decode(&self, parts: &Parts, body: &[u8]) -> Result<DecodedCommand<Input>, Problem> {
        let request = inbound::decode(parts, body, &self.keys, self.clock.now())?;
        for input in &request.inputs {
            if let Input::Node {
                input: NodeInput::Heartbeat(heartbeat),
                ..
            } = input
            {
                self.queues.request(&heartbeat.tools);
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

const READERS: u32 = 4;

#[derive(Debug, thiserror::Error)]
pub enum ExecutorError {
    #[error("cannot prepare the executor's tables")]
    Store(#[from] StoreError),
    #[error("cannot attach the executor to the bus")]
    Bus(#[from] BusError),
    #[error("cannot start the executor")]
    Kernel(#[from] KernelError),
}

/// Starts the executor. After `stop` it ends when `tracker` is empty. With `inline` it runs idempotent
/// built-in steps that no worker takes (S2-R7). An ended run is deleted after `deps.kept_for`.
///
/// # Errors
/// [`ExecutorError`] when the tables or the bus are unavailable.
pub async fn start(
    deps: &Deps,
    inline: Option<Arc<dyn InlineTools>>,
    stop: CancellationToken,
    tracker: &TaskTracker,
) -> Result<Handle<Executor>, ExecutorError> {
    migrate::<holdpoint_migrations::executor::Migrator>(&deps.store).await?;
    // Each service creates its streams. Messages for a stream that is missing wait in the outbox.
    deps.bus.provide_stream(StreamUse::Steps).await?;
    let service = Arc::new(Executor::new(deps.keys.clone(), deps.clock.clone()));
    user_directory::catch_up(deps, &service.directory).await?;
    let handle = holdpoint_kernel::start(deps, Arc::clone(&service), stop.clone(), tracker).await?;
    let readers = open_readers(&deps.store, READERS).await?;
    let directory = user_directory::open(deps, &handle, &readers, &service.directory);
    tracker.spawn(vital("users").run(directory.keep(stop.clone())));
    let (queues, bus, queues_stop) = (Arc::clone(&service.queues), deps.bus.clone(), stop.clone());
    tracker.spawn(vital("queues").run(async move { queues.keep(bus, queues_stop).await }));
    let (shares, bus, shares_stop) = (Arc::clone(&service.shares), deps.bus.clone(), stop.clone());
    tracker.spawn(vital("ended calls").run(async move { shares.follow(bus, shares_stop).await }));
    sweeps::start(&service, &handle, &readers, &stop, tracker);
    start_retention(&handle, deps, &readers, &stop, tracker);
    if let Some(tools) = inline {
        inline_worker::InlineWorker::new(&service, &handle, &readers, tools)
            .start(stop.clone(), tracker);
    }
    let queries = Arc::new(queries::ExecutorQueries::new(
        readers,
        deps.clock.clone(),
        deps.keys.steps.clone(),
    ));
    serve_queries(&deps.bus, queries, stop, tracker).await?;
    Ok(handle)
}
