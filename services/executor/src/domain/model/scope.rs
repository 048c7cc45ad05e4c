//! A scope: an agent or a whole workspace, with what was commanded for all runs in it.
//!
//! A command for many is one row, which every decision and every read of a run consults from that commit on.
//! The row numbers its changes. A run stores the number of the newest change that it has applied, and applies
//! later ones before any other input, each from its own instant. The sweep only does this for runs without
//! other inputs.

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::{PauseNew, PauseWaiting};
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::run::{PauseScope, PausedBy, ResumeMode};
use holdpoint_ids::{AgentName, RunId, Workspace};
use serde::{Deserialize, Serialize};

use crate::domain::model::is_default;

/// Most changes of one scope that not all runs have applied. Further changes are refused until the sweep has
/// caught up.
pub const CHANGES_MAX: usize = 100;

/// What was commanded for all runs of an agent or a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// Number of the newest change; only ever rises.
    pub epoch: u64,
    pub changed_at: Option<DateTime<Utc>>,
    pub paused: Option<ScopePause>,
    /// Versions of the agent up to this one are deleted; always 0 for a workspace.
    pub dead_up_to: u32,
    /// Changes that not every run has applied, oldest first.
    pub changes: Vec<Change>,
    /// The last run of the newest page; none: no page was read yet.
    pub cursor: Option<Cursor>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScopePause {
    pub by: Actor,
    /// When it began. All clocks stop at this instant.
    pub at: DateTime<Utc>,
    pub new: PauseNew,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub epoch: u64,
    /// When; never earlier than the change before.
    pub at: DateTime<Utc>,
    pub by: Actor,
    pub what: ScopeChange,
}

/// What a change of a scope does to each of its runs.
#[cfg_attr(test, derive(strum::IntoStaticStr, strum::VariantNames))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum ScopeChange {
    /// The run is frozen.
    Paused { waiting: PauseWaiting },
    /// The run continues, unless another pause stops it.
    Resumed { mode: ResumeMode },
    /// It fails.
    Deleted {
        /// If it is of a version up to this one.
        up_to: u32,
    },
}

/// The last run of a page; pages go by agent, then by id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cursor {
    pub agent: AgentName,
    pub run: RunId,
}

/// The newest changes that a run has applied, for each kind of scope.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedScopes {
    pub agent: u64,
    pub workspace: u64,
}

/// The scope of everything in a workspace. There is none before the first command for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceScope {
    pub workspace: Workspace,
    /// Rises with every decision.
    pub version: u64,
    pub scope: Scope,
    /// Whether the notification service wants the ends of all its runs (Mend C-10).
    #[serde(default, skip_serializing_if = "is_default")]
    pub watch: EndsWatch,
}

/// Whether the notification service wants the ends of all runs of an agent or workspace. It gets them until
/// it answers that no user and no webhook needs them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndsWatch {
    /// Number of subscriptions. It only rises, so that an older answer is void.
    pub begun: u64,
    /// False: they are not wanted.
    pub stands: bool,
}

impl EndsWatch {
    /// The number of the newest subscription; 0: there is none.
    #[must_use]
    pub const fn number(self) -> u64 {
        if self.stands { self.begun } else { 0 }
    }

    #[must_use]
    pub const fn begin(self) -> Self {
        Self {
            begun: self.begun + 1,
            stands: true,
        }
    }

    /// Ends the subscription, unless a newer one has begun.
    #[must_use]
    pub const fn over(self, watch: u64) -> Option<Self> {
        if watch == 0 || self.number() != watch {
            return None;
        }
        Some(Self {
            stands: false,
            ..self
        })
    }
}

impl WorkspaceScope {
    /// Of a workspace that nothing was commanded for.
    #[must_use]
    pub fn fresh(workspace: &Workspace) -> Self {
        Self {
            workspace: workspace.clone(),
            version: 0,
            scope: Scope::default(),
            watch: EndsWatch::default(),
        }
    }
}

impl Scope {
    /// Whether every run has applied all changes.
    #[must_use]
    pub const fn is_followed(&self) -> bool {
        self.changes.is_empty()
    }

    /// The pause as runs and callers are shown it.
    #[must_use]
    pub fn paused_by(&self, scope: PauseScope) -> Option<PausedBy> {
        self.paused.as_ref().map(|pause| PausedBy {
            scope,
            by: pause.by.0.clone(),
            at: pause.at,
            in_flight: Vec::new(),
        })
    }
}
