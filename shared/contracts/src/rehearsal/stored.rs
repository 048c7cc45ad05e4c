//! Rehearsals that the gateway keeps: their contacts are rehearsed in the background, and their runs are read in pages.

use chrono::{DateTime, Utc};
use holdpoint_ids::{AgentName, UserName};
use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr};

use super::RehearsalSummary;

/// Most contacts of a stored rehearsal.
pub const STORED_CONTACTS_MAX: usize = 1_000;

/// Longest time of a stored rehearsal, in seconds.
pub const STORED_SECONDS_MAX: u64 = 60;

/// Most bytes of JSON of the runs of a stored rehearsal.
pub const STORED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How long a rehearsal is kept, in days.
pub const KEPT_DAYS: i64 = 7;

/// Most rehearsals of a workspace. One more drops an ended one: the oldest of its creator, else the oldest of all.
pub const KEPT_MAX: u64 = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, Display)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum RehearsalStatus {
    Running,
    /// Every contact was rehearsed.
    Completed,
    /// It has reached a limit of time or size before the last contact.
    Limited,
    Failed,
    Cancelled,
    /// Its gateway ended before it did.
    Interrupted,
}

words!(RehearsalStatus);

/// A rehearsal without its runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredRehearsal {
    /// `reh_` and a number
    pub id: String,
    pub agent: AgentName,
    /// None: the agent was given as a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    pub status: RehearsalStatus,
    /// Contacts of the request.
    pub contacts: u64,
    /// Contacts that were rehearsed until now.
    pub rehearsed: u64,
    /// When every run starts, on the clock of the rehearsal.
    #[serde(with = "crate::instant")]
    pub start_at: DateTime<Utc>,
    pub created_by: UserName,
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
    #[serde(default, with = "crate::instant::option")]
    pub ended_at: Option<DateTime<Utc>>,
    /// When it is deleted.
    #[serde(with = "crate::instant")]
    pub kept_until: DateTime<Utc>,
    /// Why it failed or ended early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl StoredRehearsal {
    /// Whether it ended without a result that a person can use.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        matches!(
            self.status,
            RehearsalStatus::Failed | RehearsalStatus::Interrupted
        )
    }

    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.status != RehearsalStatus::Running
    }
}

/// A stored rehearsal with its totals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RehearsalDetail {
    #[serde(flatten)]
    pub rehearsal: StoredRehearsal,
    /// The ids of the steps, in the order of the plan.
    pub steps: Vec<String>,
    /// Over the contacts that were rehearsed.
    pub summary: RehearsalSummary,
}
