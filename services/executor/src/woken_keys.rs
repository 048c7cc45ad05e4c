//! Keys that commits have named, for a sweep that looks only at these.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use holdpoint_kernel::{KernelStatus, PendingSweep, SweepTrigger};

#[derive(Debug)]
pub(crate) struct WokenKeys<K> {
    keys: Mutex<BTreeSet<K>>,
    pub(crate) pending: PendingSweep,
}

impl<K> Default for WokenKeys<K> {
    fn default() -> Self {
        Self {
            keys: Mutex::default(),
            pending: PendingSweep::default(),
        }
    }
}

impl<K: Ord + Clone> WokenKeys<K> {
    /// Wakes the sweep for these keys, after the commit.
    pub(crate) fn add(&self, keys: Vec<K>) {
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
    pub(crate) fn take(&self, limit: usize) -> Vec<K> {
        let mut keys = self.keys();
        let rest = match keys.iter().nth(limit).cloned() {
            Some(next) => keys.split_off(&next),
            None => BTreeSet::new(),
        };
        std::mem::replace(&mut *keys, rest).into_iter().collect()
    }

    fn keys(&self) -> MutexGuard<'_, BTreeSet<K>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
