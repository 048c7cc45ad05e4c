//! The scheduler: owns timers and schedules. It never decides what a due time means.
//!
//! The row is the truth. Buckets of timers are armed on the bus ([`arming`]) and come back through a durable
//! consumer ([`buckets`]). The [`wheel`] holds their timers until the instant and fires them through the
//! kernel. A [`sweep`] repairs what the bus has lost. With a test clock, [`test_clock`] publishes the buckets.
//! A schedule is a timer that sets itself again. When it fires, the executor is told to start a run.

mod arming;
mod buckets;
pub mod domain;
mod inbound;
mod lost_schedules;
mod outbound;
mod queries;
mod quiescence;
mod service;
mod store;
mod sweep;
mod test_clock;
mod wheel;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use holdpoint_bus::{BusError, StreamUse};
use holdpoint_contracts::subject;
use holdpoint_kernel::{Deps, Handle, KernelError, serve_queries};
use holdpoint_store::{StoreError, migrate, open_readers};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::buckets::{Buckets, Loader};
use crate::lost_schedules::LossDetector;
use crate::queries::SchedulerQueries;
use crate::quiescence::QuiescenceProbe;
use crate::service::vital;
use crate::sweep::Sweeper;
use crate::test_clock::TestClock;
use crate::wheel::Wheel;

pub use quiescence::{KernelRegistry, WorkCounter};
pub use service::Scheduler;

const READERS: u32 = 2;

#[derive(Debug, thiserror::Error)]
pub enum SchedulerError {
    #[error("cannot prepare the scheduler's tables")]
    Store(#[from] StoreError),
    #[error("cannot attach the scheduler to the bus")]
    Bus(#[from] BusError),
    #[error("cannot start the scheduler")]
    Kernel(#[from] KernelError),
}

/// Starts the scheduler; it has ended when `stop` is cancelled and `tracker` is empty. It fires overdue timers
/// at once. With a test clock it answers [`subject::CLOCK_ADVANCE`].
///
/// # Errors
/// [`SchedulerError`]: the tables or the bus are not available.
pub async fn start(
    deps: &Deps,
    kernels: KernelRegistry,
    stop: CancellationToken,
    tracker: &TaskTracker,
) -> Result<Handle<Scheduler>, SchedulerError> {
    migrate::<holdpoint_migrations::scheduler::Migrator>(&deps.store).await?;
    // Each service creates its own streams. Messages to a missing stream wait in the outbox.
    deps.bus.provide_stream(StreamUse::Timers).await?;
    let Deps {
        bus, clock, store, ..
    } = deps;
    let service = Arc::new(Scheduler::new(deps.keys.trust.clone(), clock.clone()));
    let arming = Arc::clone(&service.arming);
    let handle = holdpoint_kernel::start(deps, service, stop.clone(), tracker).await?;
    let loader = Loader {
        db: open_readers(store, READERS).await?,
        wheel: Wheel::start(handle.clone(), clock.clone(), stop.clone(), tracker),
        clock: clock.clone(),
    };
    let buckets = Buckets {
        bus: bus.clone(),
        loader: loader.clone(),
        tracker: tracker.clone(),
    };
    tracker.spawn(vital("buckets").run(buckets.run(stop.clone())));
    let sweeper = Sweeper {
        bus: bus.clone(),
        loader: loader.clone(),
        arming,
        armed_until: None,
        losses: LossDetector::default(),
        delete_at: None,
    };
    sweeper.start().await?;
    tracker.spawn(vital("sweep").run(sweeper.run(stop.clone())));
    let queries = SchedulerQueries {
        db: loader.db.clone(),
    };
    serve_queries(bus, Arc::new(queries), stop.clone(), tracker).await?;
    if clock.is_test() {
        let requests = bus.client().subscribe(subject::CLOCK_ADVANCE).await;
        let test_clock = TestClock {
            bus: bus.clone(),
            probe: QuiescenceProbe {
                bus: bus.clone(),
                loader,
                kernels,
            },
        };
        tracker.spawn(test_clock.run(requests.map_err(BusError::from)?, stop));
    }
    Ok(handle)
}
