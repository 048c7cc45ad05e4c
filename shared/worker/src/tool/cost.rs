//! What one call of a tool costs.

use std::sync::{Arc, Mutex, PoisonError};

/// Counts against the budget of the run, whatever becomes of the call. Clones share the sum.
#[derive(Debug, Clone, Default)]
pub struct CallCost(Arc<Mutex<f64>>);

impl CallCost {
    /// Adds a cost in the unit of the agent's budget. Anything but a positive number is ignored.
    pub fn add(&self, cost: f64) {
        if cost.is_finite() && cost > 0.0 {
            let mut sum = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // JSON has no infinity.
            *sum = (*sum + cost).min(f64::MAX);
        }
    }

    /// The sum; none: nothing was added.
    pub(crate) fn total(&self) -> Option<f64> {
        let total = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (total > 0.0).then_some(total)
    }
}
