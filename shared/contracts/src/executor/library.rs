//! Commands and queries about the library of a workspace: mail templates and calendars that agents use by name.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::Actor;

/// Templates and calendars have separate names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum LibraryKind {
    Template,
    Calendar,
}

/// Adds a template or a calendar, or replaces it (`POST /templates`, `POST /calendars`). Agents that were applied
/// before keep what they have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutLibraryEntry {
    pub kind: LibraryKind,
    /// 1 to 100 letters, digits, `.`, `_` and `-`, beginning with a letter or digit.
    pub name: String,
    /// As in the field `templates` or `calendar` of an agent.
    pub value: Value,
}

/// Deletes a template or a calendar. Agents that were applied before keep what they have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteLibraryEntry {
    pub kind: LibraryKind,
    pub name: String,
}

/// One template or calendar.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetLibraryEntry {
    pub kind: LibraryKind,
    pub name: String,
}

/// All templates or all calendars by name, without their values; at most 100.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListLibrary {
    pub kind: LibraryKind,
}

/// A template or a calendar of a workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LibraryEntryView {
    pub name: String,
    /// Absent in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    pub updated_at: DateTime<Utc>,
    pub updated_by: Actor,
    /// Whether the command changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<bool>,
}
