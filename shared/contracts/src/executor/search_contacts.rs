//! The query of the built-in tool `search_contacts`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Most contacts of one reply, and of one search.
pub const FOUND_MAX: u64 = 100;

/// Finds contacts for a step in progress. A contact must satisfy all that is named, which is at least one of
/// `fields`, `tag` and `text`. A reply may have fewer contacts than `limit` and a cursor: the search continues there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchContacts {
    /// Token of the step. It gives access to the contacts of its workspace only, until the step ends.
    pub token: String,
    /// At most 20, with exactly these values; `null` also stands for a missing field. Addresses are compared in
    /// capitals or not.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub fields: Map<String, Value>,
    /// A tag that the contact has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// A part of the name or of the mail address, in capitals or not; 1 to 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// 1 to 100.
    pub limit: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
