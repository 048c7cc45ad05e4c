//! The state of a schedule, beside its timer.

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::ScheduledStartReply;
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::scheduler::{FireOutcome, ScheduleSpec, ScheduleView};
use holdpoint_ids::{RunId, Workspace};
use serde::{Deserialize, Serialize};

/// Most schedules of a workspace. A further one is refused.
pub(crate) const SCHEDULES_MAX: usize = 1_000;

/// Longest cron expression, in characters.
pub(crate) const CRON_CHARS_MAX: usize = 200;

/// Largest input of a schedule, in bytes of JSON.
pub(crate) const INPUT_BYTES_MAX: usize = 64 * 1024;

/// Longest error that a schedule keeps, in characters.
pub(crate) const ERROR_CHARS_MAX: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    pub workspace: Workspace,
    pub spec: ScheduleSpec,
    /// That of its timer: rises with every change.
    pub version: u64,
    pub created_by: Actor,
    /// Part of the ids of its runs: a schedule of the same name that is created later starts other runs.
    pub created_at: DateTime<Utc>,
    /// The due time of its timer; `None`: it never fires again.
    pub next_fire: Option<DateTime<Utc>>,
    /// The newest fire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Fire>,
    /// The newest run that the executor has started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<RunId>,
    /// The start that the executor has not answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<PendingStart>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fire {
    pub at: DateTime<Utc>,
    pub outcome: FireOutcome,
    /// Why nothing was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A start on its way to the executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingStart {
    /// See [`rev_of`].
    pub rev: u64,
    pub run: RunId,
}

/// The executor's answer to a start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartAnswer {
    Replied(ScheduledStartReply),
    /// The executor has refused it, for this reason.
    Refused(String),
    /// The reply has an unknown form. The run may have started.
    Unreadable,
}

/// The generation of the timer and of the start of a fire: its instant in milliseconds, which only rises.
pub(crate) fn rev_of(fire: DateTime<Utc>) -> u64 {
    u64::try_from(fire.timestamp_millis()).unwrap_or_default()
}

impl Schedule {
    #[must_use]
    pub fn view(&self) -> ScheduleView {
        ScheduleView {
            spec: self.spec.clone(),
            version: self.version,
            created_by: self.created_by.clone(),
            created_at: self.created_at,
            next_fire: self.next_fire,
            last_fire: self.last.as_ref().map(|fire| fire.at),
            last_outcome: self.last.as_ref().map(|fire| fire.outcome),
            last_error: self.last.as_ref().and_then(|fire| fire.error.clone()),
            last_run: self.last_run,
        }
    }

    /// The instant after which the next fire is. A clock that was set back repeats no fire.
    pub(crate) fn fired_until(&self, now: DateTime<Utc>) -> DateTime<Utc> {
        self.last.as_ref().map_or(now, |fire| fire.at.max(now))
    }
}
