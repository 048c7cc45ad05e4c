//! The loop of the sweeps, in the shape of the kernel's `Sweep`: it gives way to that one.

use std::time::Duration;

use futures_util::future::BoxFuture;
use holdpoint_bus::{Bus, BusError, Outgoing};
use holdpoint_kernel::Handle;
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Executor;
use crate::domain::Input;

/// One kind of looking through the tables.
pub(super) trait Sweep: Send + 'static {
    /// For the log.
    const NAME: &'static str;
    /// Real time between two passes.
    const EVERY: Duration;

    /// One page; a pass begins after the page that has no more.
    fn page<'a>(
        &'a mut self,
        db: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage, StoreError>>;
}

/// What one page of a sweep came to.
#[derive(Debug)]
pub(super) struct SweepPage {
    /// Decided in one batch; refusals are no failure.
    pub(super) inputs: Vec<Input>,
    /// Published again, without an outbox row: the next pass finds what was not stored.
    pub(super) messages: Vec<Outgoing>,
    /// Whether there is another page of the same pass.
    pub(super) more: bool,
}

/// What sweeps work with.
#[derive(Debug, Clone)]
pub(super) struct Around {
    pub(super) handle: Handle<Executor>,
    pub(super) bus: Bus,
    pub(super) db: DatabaseConnection,
    pub(super) stop: CancellationToken,
}

/// Why a pass was not finished; the next one makes it good.
#[derive(Debug, thiserror::Error)]
enum Unfinished {
    #[error("the tables could not be read")]
    Store(#[from] StoreError),
    #[error("not everything could be published")]
    Bus(#[from] BusError),
    #[error("the kernel could not commit")]
    Commit,
}

/// Sweeps until it is told to stop; the first pass begins at once.
pub(super) fn start_sweep<W: Sweep>(around: &Around, mut sweep: W, tracker: &TaskTracker) {
    let around = around.clone();
    tracker.spawn(async move {
        let passes = async {
            let mut was_well = true;
            loop {
                let passed = pass(&around, &mut sweep).await;
                if let (Err(error), true) = (&passed, was_well) {
                    let error: &dyn std::error::Error = error;
                    tracing::warn!(
                        sweep = W::NAME,
                        error,
                        "a sweep failed; the next one makes it good"
                    );
                }
                was_well = passed.is_ok();
                tokio::time::sleep(W::EVERY).await;
            }
        };
        // What a page has submitted is finished by the kernel itself.
        around.stop.run_until_cancelled(passes).await;
    });
}

async fn pass<W: Sweep>(around: &Around, sweep: &mut W) -> Result<(), Unfinished> {
    loop {
        let SweepPage {
            inputs,
            messages,
            more,
        } = sweep.page(&around.db).await?;
        if !messages.is_empty() {
            around.bus.publish_all(messages).await?;
        }
        if !inputs.is_empty() && !around.handle.submit(inputs).await {
            return Err(Unfinished::Commit);
        }
        if !more {
            return Ok(());
        }
    }
}
