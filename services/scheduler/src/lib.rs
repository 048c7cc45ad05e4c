//! The scheduler: owns timers. A timer clock that never decides what a due time means.
//!
//! The row is the truth. Buckets of timers are armed on the bus ([`arming`]), come back through a
//! durable consumer ([`buckets`]), are held until their instant ([`wheel`]) and fire through the
//! kernel; a sweeper ([`sweep`]) makes good what the bus has lost. With a test clock, [`advance`]
//! brings the buckets instead.

mod advance;
mod arming;
mod buckets;
pub mod domain;
mod inbound;
mod lost_schedules;
mod outbound;
mod service;
mod settling;
mod store;
mod sweep;
mod wheel;

use std::sync::Arc;

use holdpoint_bus::{BusError, StreamUse};
use holdpoint_contracts::subject;
use holdpoint_kernel::{Deps, Handle, KernelError, Vital};
use holdpoint_store::{StoreError, migrate, open_readers};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::advance::Advance;
use crate::buckets::{Buckets, Loader};
use crate::lost_schedules::LossDetector;
use crate::settling::Rest;
use crate::sweep::Sweeper;
use crate::wheel::Wheel;

pub use service::Scheduler;
pub use settling::{Other, Settling};

/// Connections that look for due timers.
const READERS: u32 = 2;

/// The scheduler could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SchedulerError {
    /// Its tables are not to be had.
    #[error("cannot prepare the scheduler's tables")]
    Store(#[from] StoreError),
    /// The bus refused.
    #[error("cannot attach the scheduler to the bus")]
    Bus(#[from] BusError),
    /// The kernel did not start.
    #[error("cannot start the scheduler")]
    Kernel(#[from] KernelError),
}

/// Starts the scheduler; it ends with `stop`, when `tracker` is empty. Alarms that came due while
/// none was there are fired at once. With a test clock it answers [`subject::CLOCK_ADVANCE`].
///
/// # Errors
/// [`SchedulerError`] when tables or bus are not to be had.
pub async fn start(
    deps: &Deps,
    settling: Settling,
    stop: CancellationToken,
    tracker: &TaskTracker,
) -> Result<Handle<Scheduler>, SchedulerError> {
    migrate::<holdpoint_migrations::scheduler::Migrator>(&deps.store).await?;
    // Each service makes its own streams. What goes to one that is not there yet waits in the outbox.
    deps.bus.provide_stream(StreamUse::Timers).await?;
    let Deps {
        bus, clock, store, ..
    } = deps;
    let service = Arc::new(Scheduler::new(clock.clone()));
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
        forget_at: None,
    };
    sweeper.start().await?;
    tracker.spawn(vital("sweep").run(sweeper.run(stop.clone())));
    if clock.is_test() {
        let requests = bus.client().subscribe(subject::CLOCK_ADVANCE).await;
        let advance = Advance {
            bus: bus.clone(),
            rest: Rest {
                bus: bus.clone(),
                loader,
                settling,
            },
        };
        tracker.spawn(advance.run(requests.map_err(BusError::from)?, stop));
    }
    Ok(handle)
}

/// A part whose panic ends the process: timers would not fire, and nothing would say so.
pub(crate) const fn vital(part: &'static str) -> Vital {
    Vital {
        service: "scheduler",
        part,
    }
}

#[cfg(test)]
mod tests;
