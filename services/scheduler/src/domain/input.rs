//! The inputs of a timer.

use chrono::{DateTime, Utc};

use super::model::Key;

/// An input of a timer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The owner's desired state.
    Set {
        key: Key,
        /// A lower or equal one than the timer's changes nothing.
        rev: u64,
        /// `None`: withdrawn.
        due: Option<DateTime<Utc>>,
    },
    /// The wheel reports that the timer is due.
    Due {
        key: Key,
        /// As read by the wheel. A different one means that the timer was changed meanwhile.
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
