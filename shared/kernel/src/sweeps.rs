//! The loop of every service's sweepers: looks at the tables from time to time, has decided what is
//! due, and publishes again what has not been confirmed. Decides nothing itself.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use holdpoint_bus::{BusError, Outgoing};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::start::vital;
use crate::writer::chain;
use crate::{Handle, InputOf, Service};

/// Most pages of one pass. What no decision could move is found again by the next page: the pause between
/// two passes keeps it from taking a core.
const PAGES_IN_A_ROW: usize = 100;

/// One kind of looking through a service's tables.
pub trait Sweep<S: Service>: Send + 'static {
    /// For the log.
    const NAME: &'static str;
    /// Real time between two passes.
    const EVERY: Duration;

    /// One page: what is to be decided and what is to be published again. A pass ends with the page that
    /// has no more, or after 100 pages; one that failed begins anew at its next page.
    fn page<'a>(
        &'a mut self,
        db: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<S>, StoreError>>;
}

/// What one page of a sweep came to.
#[derive(Debug)]
pub struct SweepPage<S: Service> {
    /// Decided in one batch; refusals are no failure.
    pub inputs: Vec<InputOf<S>>,
    /// Published again, without an outbox row: the next pass finds what was not stored.
    pub messages: Vec<Outgoing>,
    /// Whether there is another page of the same pass.
    pub more: bool,
}

/// Wakes a sweep. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SweepTrigger(Arc<Notify>);

impl SweepTrigger {
    /// Has the next pass begin at once; during a pass: right after it.
    pub fn now(&self) {
        self.0.notify_one();
    }
}

/// Why a pass was not finished; the next one makes it good.
#[derive(Debug, thiserror::Error)]
enum Unfinished {
    #[error("the tables could not be read")]
    Store(#[from] StoreError),
    #[error("not everything could be published")]
    Bus(#[from] BusError),
    #[error("the bus is away")]
    Away,
    #[error("the kernel could not commit")]
    Commit,
}

/// Sweeps until it is told to stop; the first pass begins at once.
pub fn start_sweep<S: Service, W: Sweep<S>>(
    handle: &Handle<S>,
    db: DatabaseConnection,
    mut sweep: W,
    stop: CancellationToken,
    tracker: &TaskTracker,
) -> SweepTrigger {
    let nudge = SweepTrigger(Arc::default());
    let wake = nudge.clone();
    let handle = handle.clone();
    let sweeping = async move {
        let passes = async {
            let mut was_well = true;
            loop {
                let passed = pass(&handle, &db, &mut sweep).await;
                tell::<S, W>(&passed, was_well);
                was_well = passed.is_ok();
                tokio::select! {
                    () = tokio::time::sleep(W::EVERY) => {}
                    () = wake.0.notified() => {}
                }
            }
        };
        // What a page has submitted is finished by the kernel itself.
        stop.run_until_cancelled(passes).await;
    };
    tracker.spawn(vital::<S>("sweep").run(sweeping));
    nudge
}

/// Looks page by page, at most [`PAGES_IN_A_ROW`].
async fn pass<S: Service, W: Sweep<S>>(
    handle: &Handle<S>,
    db: &DatabaseConnection,
    sweep: &mut W,
) -> Result<(), Unfinished> {
    for _page in 0..PAGES_IN_A_ROW {
        let SweepPage {
            inputs,
            messages,
            more,
        } = sweep.page(db).await?;
        if !messages.is_empty() {
            if !handle.bus().is_connected() {
                return Err(Unfinished::Away);
            }
            handle.bus().publish_all(messages).await?;
        }
        if !inputs.is_empty() && !handle.submit(inputs).await {
            return Err(Unfinished::Commit);
        }
        if !more {
            break;
        }
    }
    Ok(())
}

/// Once when it begins to fail, and once when it is well again.
fn tell<S: Service, W: Sweep<S>>(passed: &Result<(), Unfinished>, was_well: bool) {
    match passed {
        Err(error) if was_well => {
            tracing::warn!(service = S::NAME, sweep = W::NAME, error = %chain(error), "a sweep failed; the next one makes it good");
        }
        Ok(()) if !was_well => {
            tracing::info!(
                service = S::NAME,
                sweep = W::NAME,
                "the sweep is well again"
            );
        }
        Err(_) | Ok(()) => {}
    }
}
