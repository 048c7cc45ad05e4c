//! An operation: one action on all runs that match a filter. A sweep works through the runs; what it did with each of
//! them is a row of its own.

use chrono::{DateTime, Utc};
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::operation::{
    OperationState, OperationView, RunAction, RunFilter, RunResult,
};
use holdpoint_contracts::run::RunStatus;
use holdpoint_ids::{OperationId, RunId, UserName, Workspace};
use serde::{Deserialize, Serialize};

use crate::domain::model::is_default;

/// Control state of an operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    pub id: OperationId,
    pub workspace: Workspace,
    /// Rises with every decision.
    pub version: u64,
    pub action: RunAction,
    pub filter: RunFilter,
    pub by: Actor,
    /// Runs that matched when it began.
    pub matched: u64,
    /// Runs that were created later are not part of it.
    pub created_at: DateTime<Utc>,
    /// Runs that its pages had so far.
    #[serde(default, skip_serializing_if = "is_default")]
    pub taken: u64,
    /// The last run of the newest page; none: no page was read yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<RunId>,
    pub phase: OperationPhase,
}

#[cfg_attr(test, derive(strum::IntoStaticStr, strum::VariantNames))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum OperationPhase {
    /// The sweep works through the runs.
    Running,
    /// All pages were read. A run that was deleted has no result.
    Completed {
        at: DateTime<Utc>,
        /// More runs match by now than an operation may have.
        #[serde(default, skip_serializing_if = "is_default")]
        limit_reached: bool,
    },
    /// An operator ended it early.
    Cancelled { at: DateTime<Utc>, by: Actor },
}

/// What an operation did with one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationResult {
    pub operation: OperationId,
    pub run: RunId,
    pub result: RunResult,
    /// The code of the refusal; none: it was not refused.
    pub code: Option<String>,
    pub at: DateTime<Utc>,
}

/// The status of the runs that an operation selects; none: all that have not ended. A filter without a status selects
/// the runs that the action can concern.
#[must_use]
pub fn selected_status(action: &RunAction, filter: &RunFilter) -> Option<RunStatus> {
    let default = match action {
        RunAction::Retry { .. } => Some(RunStatus::Failed),
        RunAction::Pause { .. }
        | RunAction::Resume { .. }
        | RunAction::Cancel { .. }
        | RunAction::Suspend { .. }
        | RunAction::Migrate { .. }
        | RunAction::Signal { .. } => None,
    };
    filter.status.or(default)
}

impl Operation {
    #[must_use]
    pub const fn is_running(&self) -> bool {
        matches!(self.phase, OperationPhase::Running)
    }

    #[must_use]
    pub const fn state(&self) -> OperationState {
        match self.phase {
            OperationPhase::Running => OperationState::Running,
            OperationPhase::Completed { .. } => OperationState::Completed,
            OperationPhase::Cancelled { .. } => OperationState::Cancelled,
        }
    }

    #[must_use]
    pub const fn ended_at(&self) -> Option<DateTime<Utc>> {
        match self.phase {
            OperationPhase::Running => None,
            OperationPhase::Completed { at, .. } | OperationPhase::Cancelled { at, .. } => Some(at),
        }
    }

    /// The user on whose behalf it acts; none: a program.
    #[must_use]
    pub fn user(&self) -> Option<UserName> {
        self.by.0.parse().ok()
    }

    /// The operation as the API shows it, without its counts.
    #[must_use]
    pub fn view(&self) -> OperationView {
        let limit_reached = match self.phase {
            OperationPhase::Completed { limit_reached, .. } => limit_reached,
            OperationPhase::Running | OperationPhase::Cancelled { .. } => false,
        };
        OperationView {
            id: self.id,
            action: self.action.name(),
            filter: self.filter.clone(),
            state: self.state(),
            matched: self.matched,
            limit_reached,
            counts: None,
            created_by: self.by.to_string(),
            created_at: self.created_at,
            ended_at: self.ended_at(),
        }
    }
}
