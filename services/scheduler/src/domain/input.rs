//! What can happen to a timer.

use chrono::{DateTime, Utc};

use super::model::Key;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The owner's desired state.
    Set {
        key: Key,
        /// If it is not higher than the timer's `rev`, nothing changes.
        rev: u64,
        /// `None`: withdrawn.
        due: Option<DateTime<Utc>>,
    },
    /// The wheel reports that the timer is due.
    Due {
        key: Key,
        /// As read by the wheel. Another one means that the timer was changed since.
        rev: u64,
    },
}

impl Input {
    pub(crate) fn key(&self) -> &Key {
        match self {
            Self::Set { key, .. } | Self::Due { key, .. } => key,
        }
    }
}
