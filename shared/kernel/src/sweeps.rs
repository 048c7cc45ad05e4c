//! The loop of every sweep: reads the tables page by page, submits what is due to the kernel, and publishes
//! again what was not acknowledged. It decides nothing itself.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use holdpoint_bus::{BusError, Outgoing};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error_chain::error_chain;
use crate::service::{InputOf, Service, vital};
use crate::start::Handle;
use crate::status::KernelStatus;

/// Pages of one pass at most. A row that no decision could move is found again by the next page, and the pause
/// between two passes keeps such a sweep from using a whole core.
const PAGES_IN_A_ROW: usize = 100;

/// A search through a service's tables.
pub trait Sweep<S: Service>: Send + 'static {
    const NAME: &'static str;
    /// Real time between two passes.
    const EVERY: Duration;

    /// Reads one page. A pass ends after the last page, or after 100 pages. A failed pass continues with
    /// the next page.
    fn page<'a>(
        &'a mut self,
        db: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<S>, StoreError>>;
}

/// The result of one page.
#[derive(Debug)]
pub struct SweepPage<S: Service> {
    /// Decided in one batch. A refusal is not a failure.
    pub inputs: Vec<InputOf<S>>,
    /// Published again, without an outbox row: the next pass finds what was not stored.
    pub messages: Vec<Outgoing>,
    /// Whether the pass has another page.
    pub more: bool,
}

impl<S: Service> SweepPage<S> {
    /// A page that publishes nothing.
    pub fn of_inputs(inputs: impl IntoIterator<Item = InputOf<S>>, more: bool) -> Self {
        Self {
            inputs: inputs.into_iter().collect(),
            messages: Vec::new(),
            more,
        }
    }
}

/// Starts a pass early. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SweepTrigger(Arc<Notify>);

impl SweepTrigger {
    /// The next pass begins at once, or right after the present one.
    pub fn now(&self) {
        self.0.notify_one();
    }
}

/// Starts a sweep, and counts the commits that have left work for it. A moved test clock waits for that work.
#[derive(Debug, Default)]
pub struct PendingSweep {
    counts: Mutex<Counts>,
    sweep: OnceLock<(SweepTrigger, KernelStatus)>,
}

#[derive(Debug, Default)]
struct Counts {
    begun: u64,
    ended: u64,
}

impl PendingSweep {
    /// Connects the sweep, which [`Self::begin`] starts from now on.
    pub fn connect(&self, trigger: SweepTrigger, status: KernelStatus) {
        drop(self.sweep.set((trigger, status)));
    }

    /// A commit has left work; starts the sweep at once.
    pub fn begin(&self) {
        let Some((trigger, status)) = self.sweep.get() else {
            return;
        };
        let mut counts = self.counts();
        counts.begun += 1;
        status.begin();
        drop(counts);
        trigger.now();
    }

    /// The number of such commits when a page begins.
    pub fn begun(&self) -> u64 {
        self.counts().begun
    }

    /// The work of the first `begun` commits is finished. Later commits keep theirs.
    pub fn end(&self, begun: u64) {
        let Some((_, status)) = self.sweep.get() else {
            return;
        };
        let mut counts = self.counts();
        while counts.ended < begun {
            counts.ended += 1;
            status.end();
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a pass was not finished. The next one continues.
#[derive(Debug, thiserror::Error)]
enum Unfinished {
    #[error("the tables could not be read")]
    Store(#[from] StoreError),
    #[error("not everything could be published")]
    Bus(#[from] BusError),
    #[error("the bus is disconnected")]
    Disconnected,
    #[error("the kernel could not commit")]
    Commit,
}

/// Sweeps until the service stops; the first pass begins at once.
pub fn start_sweep<S: Service, W: Sweep<S>>(
    handle: &Handle<S>,
    db: DatabaseConnection,
    mut sweep: W,
    stop: CancellationToken,
    tracker: &TaskTracker,
) -> SweepTrigger {
    let trigger = SweepTrigger(Arc::default());
    let wake = trigger.clone();
    let handle = handle.clone();
    let sweeping = async move {
        let passes = async {
            let mut was_ok = true;
            loop {
                let passed = pass(&handle, &db, &mut sweep).await;
                log_change::<S, W>(&passed, was_ok);
                was_ok = passed.is_ok();
                tokio::select! {
                    () = tokio::time::sleep(W::EVERY) => {}
                    () = wake.0.notified() => {}
                }
            }
        };
        // The kernel finishes what a page has submitted.
        stop.run_until_cancelled(passes).await;
    };
    tracker.spawn(vital::<S>("sweep").run(sweeping));
    trigger
}

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
                return Err(Unfinished::Disconnected);
            }
            handle.bus().publish_all(messages).await?;
        }
        if !inputs.is_empty() && !handle.submit_from(W::NAME, inputs).await {
            return Err(Unfinished::Commit);
        }
        if !more {
            break;
        }
    }
    Ok(())
}

/// Logs the first failure, and the first success after it.
fn log_change<S: Service, W: Sweep<S>>(passed: &Result<(), Unfinished>, was_ok: bool) {
    match passed {
        Err(error) if was_ok => {
            tracing::warn!(service = S::NAME, sweep = W::NAME, error = %error_chain(error), "sweep failed; the next pass tries again");
        }
        Ok(()) if !was_ok => {
            tracing::info!(service = S::NAME, sweep = W::NAME, "sweep works again");
        }
        Err(_) | Ok(()) => {}
    }
}
