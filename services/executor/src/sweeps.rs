//! What the executor looks for in its tables from time to time: leases that have ended,
//! dispatches that nobody has confirmed, runs whose agent or workspace was commanded. They decide nothing: what they find becomes an input.

mod following;
mod leases;
mod redispatch;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use holdpoint_kernel::{Handle, start_sweep};
use sea_orm::DatabaseConnection;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Executor;

pub(crate) use following::ScopeSyncPending;
pub(crate) use redispatch::step_dispatches;

/// What sweeps are started with.
pub(crate) struct Sweeping<'s> {
    pub(crate) handle: &'s Handle<Executor>,
    pub(crate) service: &'s Executor,
    pub(crate) db: &'s DatabaseConnection,
}

/// Starts the sweeps; they end with `stop`.
pub(crate) fn start(with: &Sweeping<'_>, stop: &CancellationToken, tracker: &TaskTracker) {
    let (handle, db) = (with.handle, with.db);
    let leases = leases::Leases::new(with.service.clock.clone(), handle.bus().clone());
    start_sweep(handle, db.clone(), leases, stop.clone(), tracker);
    let step_dispatches = redispatch::HandOuts::new(with.service.clone());
    start_sweep(handle, db.clone(), step_dispatches, stop.clone(), tracker);
    let pages = &with.service.pages;
    let following = following::Following(Arc::clone(pages));
    let nudge = start_sweep(handle, db.clone(), following, stop.clone(), tracker);
    pages.wakes(nudge, handle.status());
}
