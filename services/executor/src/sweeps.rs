//! Background passes over the executor's tables. A sweep decides nothing; its finds become inputs. Sweeps find:
//! - expired leases, dispatches without a grant, queued runs, and runs that wait for a reply;
//! - runs that do not follow a command for their agent or workspace yet;
//! - runs of operations and of erased contacts;
//! - expired blobs, and runs past their retention.

mod blobs;
mod erasures;
mod leases;
mod missing_tools;
mod operations;
mod queued_calls;
mod queued_runs;
mod redispatch;
mod replies;
mod retention;
mod scope_sync;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use holdpoint_kernel::{Handle, start_sweep};
use sea_orm::DatabaseConnection;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::executor::Executor;

#[cfg(test)]
pub(crate) use erasures::ErasurePages;
pub(crate) use erasures::runs_of as runs_of_erasure;
#[cfg(test)]
pub(crate) use operations::page as operations_page;
pub(crate) use queued_calls::{Place, place_of, step_dispatches};

/// Starts the sweeps that have no setting; they end with `stop`.
pub(crate) fn start(
    service: &Executor,
    handle: &Handle<Executor>,
    db: &DatabaseConnection,
    stop: &CancellationToken,
    tracker: &TaskTracker,
) {
    let leases = leases::Leases::new(service.clock.clone(), handle.bus().clone());
    start_sweep(handle, db.clone(), leases, stop.clone(), tracker);
    let blobs = blobs::Blobs(service.clock.clone());
    start_sweep(handle, db.clone(), blobs, stop.clone(), tracker);
    let redispatch = redispatch::Redispatch::new(service.clone());
    start_sweep(handle, db.clone(), redispatch, stop.clone(), tracker);
    let pages = &service.pages;
    let scope_sync = scope_sync::ScopeSync(Arc::clone(pages));
    let trigger = start_sweep(handle, db.clone(), scope_sync, stop.clone(), tracker);
    pages.connect(trigger, handle.status());
    let places = &service.places;
    let queued_runs = queued_runs::QueuedRuns::new(Arc::clone(places));
    let trigger = start_sweep(handle, db.clone(), queued_runs, stop.clone(), tracker);
    places.connect(trigger, handle.status());
    let replies = &service.replies;
    let sweep = replies::Replies::new(Arc::clone(replies));
    let trigger = start_sweep(handle, db.clone(), sweep, stop.clone(), tracker);
    replies.connect(trigger, handle.status());
    let operations = &service.operations;
    let sweep = operations::Operations(Arc::clone(operations));
    let trigger = start_sweep(handle, db.clone(), sweep, stop.clone(), tracker);
    operations.connect(trigger, handle.status());
    let sweep = erasures::Erasures::new(&service.erasures);
    let trigger = start_sweep(handle, db.clone(), sweep, stop.clone(), tracker);
    service.erasures.connect(trigger, handle.status());
}
