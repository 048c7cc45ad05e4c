//! Commands of the scheduler: a timer service that never decides what a due time means.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::message::{Command, Reply};

/// Name of the service, as in subjects.
pub const SERVICE: &str = "scheduler";

/// The timers that are wanted; one message a batch of the service that wants them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetTimers {
    /// The service that is notified when they are due.
    pub owner: String,
    /// At least one.
    pub timers: Vec<SetTimer>,
}

/// One timer as it is wanted: level, not edge. A lower or equal `rev` changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetTimer {
    /// The owner's id for it; a hold's id, for instance.
    pub id: String,
    /// Rises with every desired state.
    pub rev: u64,
    /// When to fire; none: not at all.
    #[serde(default, with = "crate::instant::option")]
    pub due: Option<DateTime<Utc>>,
}

/// Answer to one [`SetTimer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SetTimerReply {
    /// The state was set.
    Set,
    /// A newer desired state came before, or the same one.
    Stale,
}

impl Command for SetTimers {
    const SERVICE: &'static str = SERVICE;
    const VERB: &'static str = "set_timers";
    type Reply = Vec<Reply<SetTimerReply>>;

    fn aggregate(&self) -> String {
        self.timers
            .first()
            .map(|timer| timer.id.clone())
            .unwrap_or_default()
    }
}

/// A bucket that a schedule has fired, or that is due at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DueBucket {
    /// The shard.
    pub shard: u32,
    /// The second, counted from 1970, within which its timers are due.
    pub second: i64,
}

/// Moves the test clock on (`POST /v1/clock/advance`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdvanceClock {
    /// By how much, in milliseconds.
    pub by_ms: u64,
    /// Longest real time to wait for what it woke, in milliseconds.
    pub settle_ms: u64,
}

/// Where the clock stands and what it left moving.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdvancedClock {
    /// The time now.
    #[serde(with = "crate::instant")]
    pub now: DateTime<Utc>,
    /// Whether everything that was woken has come to rest.
    pub settled: bool,
    /// What has not, in words.
    pub unsettled: Vec<String>,
}
