//! Schedules: a cron expression in a time zone that starts runs of an agent.
//!
//! [`ScheduleSpec`] is also the body of `POST /schedules`.

use chrono::{DateTime, Utc};
use holdpoint_ids::{AgentName, RunId, ScheduleName};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::Actor;

/// Creates a schedule, or changes one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutSchedule {
    pub schedule: ScheduleSpec,
}

/// Deletes a schedule; the runs that it has started continue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteSchedule {
    pub name: ScheduleName,
}

/// One schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetSchedule {
    pub name: ScheduleName,
}

/// The schedules of a workspace by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListSchedules {
    pub limit: u64,
    /// From the previous page.
    pub cursor: Option<String>,
}

/// When runs of an agent start, and with which input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleSpec {
    pub name: ScheduleName,
    /// Each run is of its newest version.
    pub agent: AgentName,
    /// Minute, hour, day of the month, month and day of the week; or a nickname such as `@daily`.
    pub cron: String,
    /// The zone of `cron`, by its name in the time zone database: `Europe/Berlin`.
    #[serde(default = "utc")]
    pub time_zone: String,
    /// `$input` in the steps.
    #[serde(default)]
    pub input: Value,
    #[serde(default)]
    pub when_paused: WhenPaused,
    #[serde(default)]
    pub overlap: Overlap,
}

fn utc() -> String {
    "UTC".to_owned()
}

/// The effect of a pause of the agent or workspace on a start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenPaused {
    /// Nothing starts.
    #[default]
    Skip,
    /// The run is accepted and paused.
    Queue,
}

/// The effect of an open run of the schedule on the next start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// A second run starts beside it.
    #[default]
    Start,
    /// Nothing starts while the last run of the schedule is open.
    Skip,
}

/// A schedule as the API shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScheduleView {
    #[serde(flatten)]
    pub spec: ScheduleSpec,
    /// Rises with every change and every fire.
    pub version: u64,
    /// The user who created it.
    pub created_by: Actor,
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
    /// Absent if it never fires again.
    #[serde(with = "crate::instant::option")]
    pub next_fire: Option<DateTime<Utc>>,
    /// The newest fire; absent before the first.
    #[serde(with = "crate::instant::option")]
    pub last_fire: Option<DateTime<Utc>>,
    /// Outcome of the newest fire.
    pub last_outcome: Option<FireOutcome>,
    /// Why the newest fire was skipped or refused.
    pub last_error: Option<String>,
    /// The newest run that it has started.
    pub last_run: Option<RunId>,
}

/// Outcome of one fire of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FireOutcome {
    /// The executor has not replied yet.
    Starting,
    Started,
    /// The agent was paused, or the last run was open.
    Skipped,
    /// The executor has refused the start, or its reply has an unknown form: `last_error` says which.
    Refused,
}
