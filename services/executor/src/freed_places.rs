//! The places that commits have freed, for the sweep of queued runs.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use holdpoint_kernel::{KernelStatus, PendingSweep, SweepTrigger};

/// Keys whose runs hold fewer places, or wait for fewer, than before.
#[derive(Debug, Default)]
pub(crate) struct FreedPlaces {
    keys: Mutex<BTreeSet<String>>,
    pub(crate) pending: PendingSweep,
}

impl FreedPlaces {
    /// Wakes the sweep for these keys, after the commit.
    pub(crate) fn add(&self, keys: Vec<String>) {
        if keys.is_empty() {
            return;
        }
        self.keys().extend(keys);
        self.pending.begin();
    }

    pub(crate) fn connect(&self, trigger: SweepTrigger, status: KernelStatus) {
        self.pending.connect(trigger, status);
    }

    /// The first keys, at most `limit`.
    pub(crate) fn take(&self, limit: usize) -> Vec<String> {
        let mut keys = self.keys();
        let rest = match keys.iter().nth(limit).cloned() {
            Some(next) => keys.split_off(&next),
            None => BTreeSet::new(),
        };
        std::mem::replace(&mut *keys, rest).into_iter().collect()
    }

    fn keys(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
