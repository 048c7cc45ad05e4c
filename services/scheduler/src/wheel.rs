//! Fires timers at their instants. One task holds the timers of the next seconds in order of due time.
//!
//! It holds copies, and the table decides: the core ignores a timer that was moved or cleared since.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use holdpoint_clock::Clock;
use holdpoint_kernel::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::domain::Input;
use crate::service::{Scheduler, vital};
use crate::store::DueTimer;

/// Timers of one commit.
const FIRED_PER_COMMIT: usize = 1_000;

/// Shortest time between the beginnings of two commits. Timers that come due within it share a commit.
const PACE: Duration = Duration::from_millis(2);

/// Wait before a batch that was not committed is submitted again.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Loads that wait for the wheel. Beyond it loaders wait.
const LOADS_MAX: usize = 16;

/// Adds timers to the wheel. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Wheel {
    loads: mpsc::Sender<Load>,
    held: Arc<AtomicUsize>,
}

/// Timers for the wheel, and the loader that waits until they have fired.
#[derive(Debug)]
struct Load {
    timers: Vec<DueTimer>,
    done: oneshot::Sender<()>,
}

impl Wheel {
    /// Starts the wheel's task; ends with `stop`.
    pub(crate) fn start(
        handle: Handle<Scheduler>,
        clock: Clock,
        stop: CancellationToken,
        tracker: &TaskTracker,
    ) -> Self {
        let (loads, inbox) = mpsc::channel(LOADS_MAX);
        let held = Arc::new(AtomicUsize::new(0));
        let wheel_task = WheelTask {
            handle,
            clock,
            inbox,
            held: Arc::clone(&held),
            timers: BTreeSet::new(),
            waiting: BTreeMap::new(),
            loads: 0,
            fired_at: None,
        };
        tracker.spawn(vital("wheel").run(wheel_task.run(stop)));
        Self { loads, held }
    }

    /// Adds timers. The receiver is notified when all of them have fired and are committed; it fails if the
    /// wheel stops before.
    pub(crate) async fn add(&self, timers: Vec<DueTimer>) -> oneshot::Receiver<()> {
        let (done, fired) = oneshot::channel();
        let count = timers.len();
        self.held.fetch_add(count, Ordering::AcqRel);
        if self.loads.send(Load { timers, done }).await.is_err() {
            self.held.fetch_sub(count, Ordering::AcqRel);
        }
        fired
    }

    /// Timers that were added and have not fired.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Acquire)
    }
}

struct WheelTask {
    handle: Handle<Scheduler>,
    clock: Clock,
    inbox: mpsc::Receiver<Load>,
    held: Arc<AtomicUsize>,
    timers: BTreeSet<DueTimer>,
    /// By the last due time of the load and a number that distinguishes equal ones.
    waiting: BTreeMap<(DateTime<Utc>, u64), oneshot::Sender<()>>,
    loads: u64,
    fired_at: Option<Instant>,
}

impl WheelTask {
    async fn run(mut self, stop: CancellationToken) {
        loop {
            let next = self.timers.first().map(|timer| timer.due);
            tokio::select! {
                () = stop.cancelled() => return,
                load = self.inbox.recv() => match load {
                    Some(load) => self.insert(load),
                    None => return,
                },
                () = wait_until_due(&self.clock, next, self.fired_at) => {
                    self.fired_at = Some(Instant::now());
                    self.fire(&stop).await;
                }
            }
        }
    }

    fn insert(&mut self, load: Load) {
        let Some(last) = load.timers.iter().map(|timer| timer.due).max() else {
            // The loader may have stopped waiting.
            load.done.send(()).ok();
            return;
        };
        let count = load.timers.len();
        let before = self.timers.len();
        self.timers.extend(load.timers);
        let known = count - (self.timers.len() - before);
        self.held.fetch_sub(known, Ordering::AcqRel);
        self.loads += 1;
        self.waiting.insert((last, self.loads), load.done);
    }

    /// Fires all timers that are due, and notifies their loaders.
    async fn fire(&mut self, stop: &CancellationToken) {
        let now = self.clock.now();
        loop {
            let due = self.timers.iter().take_while(|timer| timer.due <= now);
            let batch: Vec<_> = due.take(FIRED_PER_COMMIT).cloned().collect();
            if batch.is_empty() {
                break;
            }
            let inputs: Vec<_> = batch
                .iter()
                .map(|timer| Input::Due {
                    key: timer.key.clone(),
                    rev: timer.rev,
                })
                .collect();
            while !self.handle.submit(inputs.clone()).await {
                // Nothing was committed. The timers stay here and their bucket unacked until the database is
                // available, or they are left to the next start.
                if stop
                    .run_until_cancelled(tokio::time::sleep(RETRY_AFTER))
                    .await
                    .is_none()
                {
                    return;
                }
            }
            for timer in &batch {
                self.timers.remove(timer);
            }
            self.held.fetch_sub(batch.len(), Ordering::AcqRel);
        }
        while let Some(first) = self.waiting.first_entry() {
            if first.key().0 > now {
                break;
            }
            // The loader may have stopped waiting.
            first.remove().send(()).ok();
        }
    }
}

/// Waits until the next timer is due and the pace allows another commit.
async fn wait_until_due(clock: &Clock, next: Option<DateTime<Utc>>, fired_at: Option<Instant>) {
    let Some(next) = next else {
        return std::future::pending().await;
    };
    clock.reached(next).await;
    if let Some(fired_at) = fired_at {
        tokio::time::sleep_until(fired_at + PACE).await;
    }
}
