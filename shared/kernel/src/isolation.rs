//! What intake and writer know about inputs that may have ended the process ([`crate::suspects`]).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Only one input of a process is decided while any of its kernels isolates inputs. `up` runs several
/// kernels, and only an input that was alone in the process can be blamed.
pub(crate) static ISOLATED: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Whether inputs are isolated, and which are quarantined. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Isolation(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    is_isolated: AtomicBool,
    has_quarantined: AtomicBool,
    /// Digests of inputs that must not be decided, and whether each has its dead letter.
    quarantined: Mutex<HashMap<String, bool>>,
}

impl Isolation {
    /// Whether messages that arrive now are decided alone.
    pub(crate) fn is_isolated(&self) -> bool {
        self.0.is_isolated.load(Ordering::Acquire)
    }

    /// Whether messages that arrive now are decoded by the writer.
    pub(crate) fn is_on(&self) -> bool {
        self.is_isolated() || self.has_quarantined()
    }

    pub(crate) fn has_quarantined(&self) -> bool {
        self.0.has_quarantined.load(Ordering::Acquire)
    }

    /// `None`: the input may be decided. Otherwise: whether it has its dead letter.
    pub(crate) fn quarantine_of(&self, digest: &str) -> Option<bool> {
        self.lock().get(digest).copied()
    }

    /// The dead letter of a quarantined input is stored.
    pub(crate) fn set_dead_letter_stored(&self, digest: &str) {
        self.update(|quarantined| {
            quarantined.insert(digest.to_owned(), true);
        });
    }

    /// The input may be decided again.
    pub(crate) fn release(&self, digest: &str) {
        self.update(|quarantined| {
            quarantined.remove(digest);
        });
    }

    pub(crate) fn set_quarantined(&self, now: HashMap<String, bool>) {
        self.update(|quarantined| *quarantined = now);
    }

    pub(crate) fn set_isolated(&self, is_isolated: bool) {
        self.0.is_isolated.store(is_isolated, Ordering::Release);
    }

    fn update(&self, change: impl FnOnce(&mut HashMap<String, bool>)) {
        let mut quarantined = self.lock();
        change(&mut quarantined);
        let has_quarantined = !quarantined.is_empty();
        self.0
            .has_quarantined
            .store(has_quarantined, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, bool>> {
        self.0
            .quarantined
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
