//! The library of a workspace: mail templates and calendars that its agents use by name.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::{LibraryEntryView, LibraryKind};
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::size::json_bytes;
use holdpoint_ids::Workspace;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Most templates, and most calendars, of a workspace.
pub const ENTRIES_MAX: usize = 100;

/// Most bytes of JSON of all templates and calendars of a workspace. They are one row.
pub const LIBRARY_BYTES_MAX: usize = 1_048_576;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Library {
    pub workspace: Workspace,
    /// Rises with every change.
    pub version: u64,
    pub templates: BTreeMap<String, LibraryEntry>,
    pub calendars: BTreeMap<String, LibraryEntry>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LibraryEntry {
    /// As in the field of an agent.
    pub value: Value,
    pub updated_at: DateTime<Utc>,
    pub updated_by: Actor,
}

impl Library {
    #[must_use]
    pub fn empty(workspace: Workspace) -> Self {
        Self {
            workspace,
            version: 0,
            templates: BTreeMap::new(),
            calendars: BTreeMap::new(),
        }
    }

    #[must_use]
    pub const fn entries(&self, kind: LibraryKind) -> &BTreeMap<String, LibraryEntry> {
        match kind {
            LibraryKind::Template => &self.templates,
            LibraryKind::Calendar => &self.calendars,
        }
    }

    pub(crate) const fn entries_mut(
        &mut self,
        kind: LibraryKind,
    ) -> &mut BTreeMap<String, LibraryEntry> {
        match kind {
            LibraryKind::Template => &mut self.templates,
            LibraryKind::Calendar => &mut self.calendars,
        }
    }

    /// Bytes of JSON of all values and their names.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let entries = self.templates.iter().chain(&self.calendars);
        entries
            .map(|(name, entry)| name.len() + json_bytes(&entry.value))
            .sum()
    }
}

impl LibraryEntry {
    /// For lists: without the value.
    #[must_use]
    pub fn list_view(&self, name: &str) -> LibraryEntryView {
        LibraryEntryView {
            name: name.to_owned(),
            value: None,
            updated_at: self.updated_at,
            updated_by: self.updated_by.clone(),
            changed: None,
        }
    }

    #[must_use]
    pub fn view(&self, name: &str) -> LibraryEntryView {
        LibraryEntryView {
            value: Some(self.value.clone()),
            ..self.list_view(name)
        }
    }
}
