//! The timer of a hold, as its run knows it.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// The timer of a hold. The desired state itself is with the scheduler.
#[cfg_attr(test, derive(strum::IntoStaticStr, strum::VariantNames))]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Timer {
    /// The scheduler will say when it is due.
    Set {
        /// Version of the run that set it.
        rev: u64,
        at: DateTime<Utc>,
        due: DateTime<Utc>,
    },
    /// A pause has stopped the clock.
    Frozen {
        remaining_ms: u64,
        /// When it would have been due.
        due: DateTime<Utc>,
    },
}
