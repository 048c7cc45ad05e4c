//! Contacts, and the activities with them.

use chrono::{DateTime, Utc};
use holdpoint_ids::ContactId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::IntoStaticStr;

/// Largest contact, in bytes of JSON.
pub const CONTACT_BYTES_MAX: usize = 64 * 1024;

words!(ActivityKind);

/// A contact: its id and whatever else is known of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContactView {
    /// Chosen by the program that stores the contact.
    pub id: ContactId,
    /// Everything else: `name`, `email`, `replied`, …
    #[serde(flatten)]
    pub fields: serde_json::Map<String, Value>,
}

/// The signal of a reply. The executor sends it to runs that wait for it with `wait_for`.
pub const REPLY_SIGNAL: &str = "contact.reply";

/// Most tags of a contact, and of one change.
pub const TAGS_MAX: usize = 100;

/// Longest tag, in characters.
pub const TAG_CHARS_MAX: usize = 64;

/// A change of single tags of a contact. Its other tags stay, also those that are set at the same time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TagChange {
    /// At most [`TAGS_MAX`], of 1 to [`TAG_CHARS_MAX`] characters each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<String>,
    /// As many. A tag that the contact does not have changes nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
}

/// Something that was said to or by a contact, or done with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Activity {
    pub kind: ActivityKind,
    /// The subject of a mail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// In words; at most 20,000 characters.
    #[serde(default)]
    pub text: String,
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
    /// The Message-ID of a mail, without angle brackets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
}

/// Longest text of an activity, in characters.
pub const ACTIVITY_CHARS_MAX: usize = 20_000;

/// Longest subject of an activity, in characters.
pub const SUBJECT_CHARS_MAX: usize = 1_000;

/// Longest Message-ID, in bytes: a line of a mail (RFC 5322).
pub const MESSAGE_ID_BYTES_MAX: usize = 998;

/// The Message-ID without angle brackets. `None` if it is empty, too long or contains control characters, which could
/// write further headers.
#[must_use]
pub fn read_message_id(text: &str) -> Option<&str> {
    let id = text.trim().trim_start_matches('<').trim_end_matches('>');
    let is_valid = (1..=MESSAGE_ID_BYTES_MAX).contains(&id.len());
    Some(id).filter(|id| is_valid && !id.chars().any(char::is_control))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum ActivityKind {
    /// A mail of the contact's.
    EmailIn,
    /// A mail to the contact.
    EmailOut,
    Call,
    Note,
    Meeting,
}
