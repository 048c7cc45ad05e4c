//! Erasures: everything that is stored about a contact is deleted or emptied (`POST /contacts/{contact}/erase`).

use chrono::{DateTime, Utc};
use holdpoint_ids::ContactId;
use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr};

/// Runs that are counted for [`ErasureView`]. If there are more, the view has this number.
pub const LEFT_COUNTED_MAX: u64 = 1_000;

/// Erases a contact: its data, its activities, and its runs with everything in them. Runs that have not ended are
/// cancelled. People's decisions keep decision, time and actor. A repetition begins again where something is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EraseContact {
    pub contact: ContactId,
}

/// The newest erasure of a contact, with what is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetErasure {
    pub contact: ContactId,
}

/// An erasure as callers read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErasureView {
    pub contact: ContactId,
    pub state: ErasureState,
    pub requested_by: String,
    /// Runs that were created later are not part of it.
    #[serde(with = "crate::instant")]
    pub requested_at: DateTime<Utc>,
    /// When its last run was deleted.
    #[serde(default, with = "crate::instant::option")]
    pub completed_at: Option<DateTime<Utc>>,
    /// Runs that are not deleted yet. Absent in the reply to a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_left: Option<u64>,
    /// Requests whose erasure the handoff service has not confirmed yet, and events of the contact that the notification
    /// service has not confirmed. Absent in the reply to a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_left: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, Display)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum ErasureState {
    /// The sweep cancels and deletes runs.
    Running,
    /// All runs are deleted.
    Completed,
}

words!(ErasureState);
