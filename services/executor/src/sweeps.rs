//! What the executor looks for in its tables from time to time: leases that have ended, and
//! hand-outs that nobody has confirmed. They decide nothing: what they find becomes an input.

mod hand_outs;
mod leases;
mod passing;

#[cfg(test)]
mod tests;

use holdpoint_bus::Bus;
use holdpoint_kernel::Handle;
use sea_orm::DatabaseConnection;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Executor;

pub(crate) use hand_outs::hand_outs;

use passing::{Around, start_sweep};

/// What sweeps are started with.
pub(crate) struct Sweeping<'s> {
    pub(crate) handle: &'s Handle<Executor>,
    pub(crate) service: &'s Executor,
    pub(crate) bus: &'s Bus,
    pub(crate) db: &'s DatabaseConnection,
}

/// Starts the sweeps; they end with `stop`.
pub(crate) fn start(with: &Sweeping<'_>, stop: &CancellationToken, tracker: &TaskTracker) {
    let around = Around {
        handle: with.handle.clone(),
        bus: with.bus.clone(),
        db: with.db.clone(),
        stop: stop.clone(),
    };
    let leases = leases::Leases::new(with.service.clock.clone());
    start_sweep(&around, leases, tracker);
    let hand_outs = hand_outs::HandOuts::new(with.service.clone());
    start_sweep(&around, hand_outs, tracker);
}
