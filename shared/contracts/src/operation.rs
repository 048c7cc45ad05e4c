//! Operations: one action on all runs that match a filter (`POST /runs:bulk`).

use chrono::{DateTime, Utc};
use holdpoint_ids::{AgentName, OperationId, RunId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::{Display, IntoStaticStr};

use crate::executor::PauseWaiting;
use crate::run::{HoldKind, ResumeMode, RunStatus};

/// Most runs of one operation. A filter that matches more is refused.
pub const OPERATION_RUNS_MAX: u64 = 100_000;

/// Most runs whose states are read for a filter with a kind of hold. A filter that matches more without it is refused.
pub const HOLD_FILTER_RUNS_MAX: u64 = 10_000;

/// Most operations of a workspace that are not finished.
pub const OPERATIONS_MAX: u64 = 10;

/// What an operation does with each run. Fields are those of the command for one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RunAction {
    Pause {
        #[serde(default, skip_serializing_if = "crate::is_default")]
        waiting: PauseWaiting,
    },
    Resume {
        #[serde(default)]
        mode: ResumeMode,
    },
    Cancel {
        reason: Option<String>,
    },
    Suspend {
        reason: Option<String>,
    },
    Retry {
        from_step: Option<String>,
    },
    Migrate {
        version: Option<u32>,
    },
    Signal {
        name: String,
        #[serde(default)]
        data: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
}

/// The name of a [`RunAction`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, Display)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum ActionName {
    Pause,
    Resume,
    Cancel,
    Suspend,
    Retry,
    Migrate,
    Signal,
}

impl RunAction {
    #[must_use]
    pub const fn name(&self) -> ActionName {
        match self {
            Self::Pause { .. } => ActionName::Pause,
            Self::Resume { .. } => ActionName::Resume,
            Self::Cancel { .. } => ActionName::Cancel,
            Self::Suspend { .. } => ActionName::Suspend,
            Self::Retry { .. } => ActionName::Retry,
            Self::Migrate { .. } => ActionName::Migrate,
            Self::Signal { .. } => ActionName::Signal,
        }
    }
}

/// The runs of an operation, by the filters of `GET /runs`. Without a status it selects the failed runs for a retry,
/// and for any other action the runs that have not ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunFilter {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// Only those that wait on a hold of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldKind>,
    /// Only with this label, `name=value`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(
        default,
        with = "crate::instant::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub created_after: Option<DateTime<Utc>>,
}

/// Begins an operation on the runs that match now. A sweep works through them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartOperation {
    /// Made by the caller, so that a repetition starts nothing.
    pub id: OperationId,
    pub action: RunAction,
    pub filter: RunFilter,
    /// Runs that match, as [`PlanOperation`] has counted them.
    pub matched: u64,
}

/// Ends an operation before it has reached all runs. What was done with the others stays done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CancelOperation {
    pub id: OperationId,
}

/// Checks an action and counts the runs that match. Refused if they are more than [`OPERATION_RUNS_MAX`], or with a kind
/// of hold more than [`HOLD_FILTER_RUNS_MAX`] have to be read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanOperation {
    pub action: RunAction,
    pub filter: RunFilter,
}

/// An operation that was not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedOperation {
    /// Runs that match now.
    pub matched: u64,
}

/// One operation, with its counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetOperation {
    pub id: OperationId,
}

/// Operations, newest first, without their counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListOperations {
    /// 1 to 500.
    pub limit: u64,
    pub cursor: Option<String>,
}

/// What an operation did with each run, by run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListOperationResults {
    pub id: OperationId,
    /// 1 to 500.
    pub limit: u64,
    pub cursor: Option<String>,
    /// Only these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<RunResult>,
}

/// An operation as callers read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationView {
    pub id: OperationId,
    pub action: ActionName,
    pub filter: RunFilter,
    pub state: OperationState,
    /// Runs that matched when it began.
    pub matched: u64,
    /// Whether it ended at [`OPERATION_RUNS_MAX`] runs although more match by now.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub limit_reached: bool,
    /// Absent in lists and in replies to commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<ResultCounts>,
    pub created_by: String,
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
    #[serde(default, with = "crate::instant::option")]
    pub ended_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, Display)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum OperationState {
    /// The sweep works through the runs.
    Running,
    /// All pages were read. A run that was deleted has no result.
    Completed,
    /// An operator ended it early.
    Cancelled,
}

/// Runs by result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultCounts {
    pub changed: u64,
    pub unchanged: u64,
    pub refused: u64,
}

impl ResultCounts {
    /// Runs with a result.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.changed + self.unchanged + self.refused
    }
}

/// What an operation did with one run.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    IntoStaticStr,
    Display,
    strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum RunResult {
    /// The action took effect.
    Changed,
    /// There was nothing to do.
    Unchanged,
    /// A rule rejects the action for this run.
    Refused,
}

words!(ActionName, OperationState, RunResult);

/// The result of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunResultView {
    pub run: RunId,
    pub result: RunResult,
    /// The code of the refusal; none: it was not refused.
    pub code: Option<String>,
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
}
