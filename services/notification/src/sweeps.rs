//! Background passes. A sweep never decides: what it finds becomes an input.

pub(crate) mod digests;
pub(crate) mod due_deliveries;
pub(crate) mod fan_out;
pub(crate) mod retention;
pub(crate) mod run_end_watches;

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use holdpoint_kernel::{KernelStatus, SweepTrigger};

/// Wakes a sweep, and counts the work that commits have left for it: the test clock waits for that work.
#[derive(Debug, Default)]
pub(crate) struct Wake {
    counts: Mutex<Counts>,
    sweep: OnceLock<(SweepTrigger, KernelStatus)>,
}

/// Commits that left work, and how many of them are finished.
#[derive(Debug, Default)]
struct Counts {
    wanted: u64,
    done: u64,
}

impl Wake {
    /// A commit has left work for the sweep.
    pub(crate) fn begin(&self) {
        let Some((nudge, activity)) = self.sweep.get() else {
            return;
        };
        let mut counts = self.counts();
        counts.wanted += 1;
        activity.begin();
        drop(counts);
        nudge.now();
    }

    fn wanted(&self) -> u64 {
        self.counts().wanted
    }

    /// All work that was left before a pass began is finished.
    fn end(&self, wanted: u64) {
        let Some((_, activity)) = self.sweep.get() else {
            return;
        };
        let mut counts = self.counts();
        while counts.done < wanted {
            counts.done += 1;
            activity.end();
        }
    }

    /// Commits wake the sweep from now on.
    pub(crate) fn connect(&self, nudge: SweepTrigger, activity: KernelStatus) {
        drop(self.sweep.set((nudge, activity)));
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
