//! A notification in the inbox of one user.

use chrono::{DateTime, Utc};
use holdpoint_contracts::notification::RequestEnd;
use holdpoint_ids::{UserName, Workspace};

use super::event::NotificationEvent;

/// The entry of one person. Its version is 1 until it is read, and 2 afterwards.
#[derive(Debug, Clone, PartialEq)]
pub struct InboxEntry {
    pub workspace: Workspace,
    pub person: UserName,
    pub event: Box<NotificationEvent>,
    /// How the request of the event ended, if it has.
    pub request_end: Option<RequestEnd>,
    /// The person has it only because they watch.
    pub watching: bool,
    pub read_at: Option<DateTime<Utc>>,
}

impl InboxEntry {
    #[must_use]
    pub const fn version(&self) -> u64 {
        if self.read_at.is_some() { 2 } else { 1 }
    }
}
