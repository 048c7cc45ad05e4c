//! Commands of the scheduler: a service of timers and schedules that never decides what a due time means.

mod schedules;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::message::Reply;
use crate::run::Page;

pub use schedules::{
    DeleteSchedule, FireOutcome, GetSchedule, ListSchedules, Overlap, PutSchedule, ScheduleSpec,
    ScheduleView, WhenPaused,
};

/// Name of the service, as in subjects.
pub const SERVICE: &str = "scheduler";

commands! {
    SetTimers:      "set_timers"(timers[0].id)     -> Vec<Reply<SetTimerReply>>;
    PutSchedule:    "put_schedule"(schedule.name)  -> ScheduleView;
    DeleteSchedule: "delete_schedule"(name)        -> ();
}

queries! {
    GetSchedule:   "schedule"  -> ScheduleView;
    ListSchedules: "schedules" -> Page<ScheduleView>;
}

/// Desired states of timers; one message a batch of the service that owns them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetTimers {
    /// The service that is notified when they are due.
    pub owner: String,
    /// At least one.
    pub timers: Vec<SetTimer>,
}

/// The desired state of one timer. A lower or equal `rev` changes nothing.
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
    Set,
    /// A newer desired state came before, or the same one.
    Stale,
}

/// A bucket that a schedule has fired, or that is due at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DueBucket {
    pub shard: u32,
    /// The second, counted from 1970, within which its timers are due.
    pub second: i64,
}

/// Moves the test clock on (`POST /v1/clock/advance`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdvanceClock {
    /// By how much, in milliseconds.
    pub by_ms: u64,
    /// Longest real time to wait for the triggered work, in milliseconds.
    pub settle_ms: u64,
}

/// The time of the test clock, and the work that is not finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdvancedClock {
    #[serde(with = "crate::instant")]
    pub now: DateTime<Utc>,
    /// Whether all triggered work is finished.
    pub settled: bool,
    /// Unfinished work, for people.
    pub unsettled: Vec<String>,
}
