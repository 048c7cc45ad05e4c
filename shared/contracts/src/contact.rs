//! People outside that agents deal with, and what was said to and by them.

use chrono::{DateTime, Utc};
use holdpoint_ids::ContactId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A contact: its id and whatever else is known of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContactView {
    /// Chosen by the caller who brought it.
    pub id: ContactId,
    /// Everything else: `name`, `email`, `replied`, …
    #[serde(flatten)]
    pub fields: serde_json::Map<String, Value>,
}

/// Something that was said to or by a contact, or done with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Activity {
    /// The kind.
    pub kind: ActivityKind,
    /// Of a mail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// In words; at most 20,000 characters.
    #[serde(default)]
    pub text: String,
    /// The instant.
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
}

/// What kind of thing was said or done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActivityKind {
    /// A mail of the contact's.
    EmailIn,
    /// A mail to the contact.
    EmailOut,
    /// A call.
    Call,
    /// A note.
    Note,
    /// A meeting.
    Meeting,
}

impl ActivityKind {
    /// The word in bodies and rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EmailIn => "email_in",
            Self::EmailOut => "email_out",
            Self::Call => "call",
            Self::Note => "note",
            Self::Meeting => "meeting",
        }
    }
}
