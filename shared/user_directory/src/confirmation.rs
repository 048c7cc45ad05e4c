//! When the handoff service has last confirmed the read copy.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The instant of the last query after which the copy had all changes. Clones share it.
///
/// Its time is that of the process. A test that advances the clock of the services by days has not lost the handoff
/// service.
#[derive(Debug, Clone, Default)]
pub struct Confirmation(Arc<Mutex<Option<Instant>>>);

impl Confirmation {
    /// How old the copy can be at most; none: this process has never confirmed it.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        let at = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        at.map(|at| at.elapsed())
    }

    /// The copy has all changes from before `asked`.
    pub(crate) fn record(&self, asked: Instant) {
        let mut at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *at = (*at).max(Some(asked));
    }
}
