//! What happens to contacts and their deals, and whom it concerns (S0-T4).

use chrono::{DateTime, Utc};
use holdpoint_ids::ContactId;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

words!(ContactEventKind);

/// Longest name of a contact or of a deal in an event, in characters.
pub const EVENT_NAME_CHARS_MAX: usize = 100;

/// Contact events; one message a batch of the executor, sent again until it is acknowledged (S0-T4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordContactEvents {
    /// At least one.
    pub events: Vec<ContactEvent>,
}

/// One thing that happened to one contact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContactEvent {
    pub contact: ContactId,
    /// The contact's version after it. With the kind, this identifies the event.
    pub version: u64,
    pub kind: ContactEventKind,
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
    /// On one line, of at most [`EVENT_NAME_CHARS_MAX`] characters; none: the contact has no name, or is erased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The name of the first deal, as the name of the contact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deal: Option<String>,
    /// Number of further deals that were won, or lost, with the same change.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub more_deals: u64,
    /// The contact's owner as `@user.<name>`; empty: the workspace's owners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
}

/// A change of a contact that users are notified of, or its erasure.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum ContactEventKind {
    /// The contact is created.
    NewLead,
    /// The stage of a deal has become a won one.
    DealWon,
    /// The stage of a deal has become a lost one.
    DealLost,
    /// The contact is erased: every notification of earlier events is emptied, and no user is notified.
    ContactErased,
}

impl ContactEvent {
    /// The number that distinguishes the events of one contact. A later version has a higher number, and one
    /// version may have several kinds.
    #[must_use]
    pub const fn number(&self) -> u64 {
        let place = match self.kind {
            ContactEventKind::NewLead => 0,
            ContactEventKind::DealWon => 1,
            ContactEventKind::DealLost => 2,
            ContactEventKind::ContactErased => 3,
        };
        self.version.saturating_mul(4).saturating_add(place)
    }
}
