//! The failed attempts of a step, and the backoff before the next one.

use serde::{Deserialize, Serialize};

/// Dispatches whose failure a step remembers. A result that is repeated later counts as late evidence.
pub const FAILED_DISPATCHES_MAX: usize = 100;

/// What a step knows of the failures of its tool. Their responses are in its row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures {
    /// Failed attempts that count towards `attempts`.
    pub count: u32,
    /// Dispatches that failed, the newest last: a repetition of such a result changes nothing.
    pub dispatches: Vec<u64>,
}

impl Failures {
    /// Counts a failed attempt. Of an attempt that no worker reported, the result may still come.
    pub fn add(&mut self, dispatch: u64, is_reported: bool) {
        self.count = self.count.saturating_add(1);
        if !is_reported {
            return;
        }
        self.dispatches.push(dispatch);
        let surplus = self.dispatches.len().saturating_sub(FAILED_DISPATCHES_MAX);
        self.dispatches.drain(..surplus);
    }
}

/// A hold that ends with the next attempt of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    /// The attempt that follows, from 2.
    pub attempt: u32,
    /// Most attempts.
    pub attempts: u32,
}
