//! A scope: an agent or a whole workspace, with what was commanded for all runs in it.
//!
//! A command for many is one row, which every decision and every read of a run consults from that
//! commit on. The row numbers its changes; a run remembers which number of each scope it has
//! followed, and follows the later ones, each from its own instant, before anything else happens
//! to it. The pages only bring that to runs to which nothing else happens.

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::{PauseNew, PauseWaiting};
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::run::{PauseScope, PausedBy, ResumeMode};
use holdpoint_ids::{AgentName, RunId, Workspace};
use serde::{Deserialize, Serialize};

/// Most changes of one scope that not all runs have followed yet; more are refused until the
/// pages have caught up.
pub const CHANGES_MAX: usize = 100;

/// What was commanded for all runs of an agent or a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// Number of the newest change; only ever rises.
    pub epoch: u64,
    pub changed_at: Option<DateTime<Utc>>,
    /// The pause that stands.
    pub paused: Option<ScopePause>,
    /// Versions of the agent up to this one are deleted; always 0 for a workspace.
    pub dead_up_to: u32,
    /// What not every run has followed yet, oldest first.
    pub changes: Vec<Change>,
    /// How far the pages for the newest change have come; none: nowhere yet.
    pub cursor: Option<Cursor>,
}

/// A pause that stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScopePause {
    pub by: Actor,
    /// When; all clocks stand since then.
    pub at: DateTime<Utc>,
    /// What becomes of runs that are started meanwhile.
    pub new: PauseNew,
}

/// One change of a scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub epoch: u64,
    /// When; never earlier than the change before.
    pub at: DateTime<Utc>,
    pub by: Actor,
    pub what: ScopeChange,
}

/// What a change of a scope does to each of its runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum ScopeChange {
    /// It stands still.
    Paused {
        /// What becomes of it if it waits.
        waiting: PauseWaiting,
    },
    /// It goes on, if nothing else stops it.
    Resumed {
        /// How its waits go on.
        mode: ResumeMode,
    },
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

/// The newest changes that a run has followed; each kind of scope counts for itself.
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
    /// Whether the ends of all its runs are told (Mend C-10).
    #[serde(default, skip_serializing_if = "EndsWatch::is_none")]
    pub watch: EndsWatch,
}

/// Whether the notification service is told the ends of all runs of an agent or workspace. It is, until it
/// answers that no person and no webhook needs them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndsWatch {
    /// How often somebody has asked for them. Only ever rises: what was known before the last time is void.
    pub begun: u64,
    /// False: nobody wants them any more.
    pub stands: bool,
}

impl EndsWatch {
    /// Whether nobody ever wanted them.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.begun == 0
    }

    /// The number of the last time; 0: nobody wants them.
    #[must_use]
    pub const fn number(self) -> u64 {
        if self.stands { self.begun } else { 0 }
    }

    /// Somebody wants them from now on.
    #[must_use]
    pub const fn begin(self) -> Self {
        Self {
            begun: self.begun + 1,
            stands: true,
        }
    }

    /// Nobody wanted them any more when an end was told. Counts only if nobody has asked since.
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
    /// Whether pages are still to come.
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
