//! Background passes over the executor's tables: expired leases, dispatches without a grant, and runs that
//! do not follow a command for their agent or workspace yet. A sweep decides nothing; its finds become inputs.

mod leases;
mod redispatch;
mod scope_sync;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use holdpoint_kernel::{Handle, start_sweep};
use sea_orm::DatabaseConnection;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Executor;

pub(crate) use redispatch::step_dispatches;

/// The parts that sweeps need.
pub(crate) struct SweepDeps<'s> {
    pub(crate) handle: &'s Handle<Executor>,
    pub(crate) service: &'s Executor,
    pub(crate) db: &'s DatabaseConnection,
}

/// Starts the sweeps; they end with `stop`.
pub(crate) fn start(with: &SweepDeps<'_>, stop: &CancellationToken, tracker: &TaskTracker) {
    let (handle, db) = (with.handle, with.db);
    let leases = leases::Leases::new(with.service.clock.clone(), handle.bus().clone());
    start_sweep(handle, db.clone(), leases, stop.clone(), tracker);
    let redispatch = redispatch::Redispatch::new(with.service.clone());
    start_sweep(handle, db.clone(), redispatch, stop.clone(), tracker);
    let pages = &with.service.pages;
    let scope_sync = scope_sync::ScopeSync(Arc::clone(pages));
    let trigger = start_sweep(handle, db.clone(), scope_sync, stop.clone(), tracker);
    pages.connect(trigger, handle.status());
}
