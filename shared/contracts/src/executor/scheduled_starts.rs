//! Starts of runs by schedules, which the scheduler owns.

use chrono::{DateTime, Utc};
use holdpoint_ids::{AgentName, RunId, ScheduleName};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::scheduler::WhenPaused;

/// Starts runs for schedules that have fired; one message a batch of the scheduler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartScheduled {
    /// At least one.
    pub starts: Vec<ScheduledStart>,
}

/// The start of one fire of a schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScheduledStart {
    /// Derived from the schedule and the instant, so that a repetition starts nothing.
    pub run: RunId,
    pub schedule: ScheduleName,
    pub agent: AgentName,
    /// `$input` in the steps.
    #[serde(default)]
    pub input: Value,
    /// When the schedule fired.
    #[serde(with = "crate::instant")]
    pub fired_at: DateTime<Utc>,
    #[serde(default)]
    pub when_paused: WhenPaused,
    /// Nothing starts while this run is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unless_open: Option<RunId>,
}

/// Answer to one [`ScheduledStart`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduledStartReply {
    /// The run exists.
    Started,
    /// The agent or the workspace is paused.
    Paused,
    /// The last run of the schedule is open.
    Open,
}
