//! Commands and queries about contacts.

use holdpoint_ids::ContactId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::contact::{Activity, TagChange};

/// Replaces the data of a contact, or merges fields into it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutContact {
    pub contact: ContactId,
    pub fields: Map<String, Value>,
    /// True: the fields are a merge patch (RFC 7386), also of a contact that is not stored yet.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub merge: bool,
    /// True: no user is notified of a new lead or of its deals. The contacts of a batch are put so.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub silent: bool,
}

/// Changes the data of a contact (RFC 7386 merge patch).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatchContact {
    pub contact: ContactId,
    /// `null` removes a field.
    pub patch: Map<String, Value>,
    /// Applied after the patch.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub tags: TagChange,
}

/// Forgets a contact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteContact {
    pub contact: ContactId,
}

/// Records an activity of a contact; a repeated id adds nothing (S0-AC7).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddActivity {
    pub contact: ContactId,
    /// Made by the caller.
    pub id: String,
    pub activity: Activity,
    /// A merge patch of the contact, such as `replied` and `sentiment` (RFC 7386).
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub patch: Map<String, Value>,
}

/// The last activities of a contact, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListActivities {
    pub contact: ContactId,
    /// 1 to 200.
    pub limit: u64,
}
