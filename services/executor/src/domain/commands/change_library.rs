//! `executor.put_library_entry`, `delete_library_entry`: an operator changes a template or a calendar of the workspace.
//!
//! Agents take a template or a calendar when they are applied, so this changes no plan and no run.

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::{LibraryEntryView, LibraryKind};
use holdpoint_ids::Workspace;
use serde_json::Value;

use crate::domain::decision::{Decision, Outcome, decided};
use crate::domain::definition::library_entry_errors;
use crate::domain::effect::Reply;
use crate::domain::input::{LibraryChange, LibraryInput};
use crate::domain::model::library::{ENTRIES_MAX, LIBRARY_BYTES_MAX, Library, LibraryEntry};
use crate::domain::need::Aggregate;
use crate::domain::refusal::Refusal;

pub(crate) fn change_library(
    state: Option<&Aggregate>,
    workspace: &Workspace,
    input: &LibraryInput,
    now: DateTime<Utc>,
) -> Decision {
    let known = state.and_then(Aggregate::try_as_library_ref);
    let LibraryInput { kind, name, by, .. } = input;
    match &input.change {
        LibraryChange::Put(value) => {
            let errors = library_entry_errors(*kind, name, value);
            if !errors.is_empty() {
                return Err(Refusal::InvalidLibraryEntry(*kind, errors).into());
            }
            let mut value = value.clone();
            // A field that is null is absent, so that the same template is one value.
            if let Value::Object(fields) = &mut value {
                fields.retain(|_, field| !field.is_null());
            }
            let entry = LibraryEntry {
                value,
                updated_at: now,
                updated_by: by.clone(),
            };
            put(known, workspace, *kind, name, entry)
        }
        LibraryChange::Delete => delete(known, *kind, name),
    }
}

fn put(
    known: Option<&Library>,
    workspace: &Workspace,
    kind: LibraryKind,
    name: &str,
    entry: LibraryEntry,
) -> Decision {
    let mut library = known.map_or_else(|| Library::empty(workspace.clone()), Clone::clone);
    let entries = library.entries_mut(kind);
    if let Some(same) = entries.get(name).filter(|old| old.value == entry.value) {
        return Ok(Outcome::Unchanged(put_reply(same, name, false)));
    }
    let answer = put_reply(&entry, name, true);
    entries.insert(name.to_owned(), entry);
    if entries.len() > ENTRIES_MAX {
        return Err(Refusal::TooManyLibraryEntries(kind).into());
    }
    if library.bytes() > LIBRARY_BYTES_MAX {
        return Err(Refusal::LibraryTooLarge.into());
    }
    library.version += 1;
    decided(Aggregate::Library(library), Vec::new(), answer)
}

fn delete(known: Option<&Library>, kind: LibraryKind, name: &str) -> Decision {
    let mut library = known.cloned();
    let removed = library
        .as_mut()
        .and_then(|library| library.entries_mut(kind).remove(name));
    let (Some(mut library), Some(_)) = (library, removed) else {
        return Err(Refusal::LibraryEntryNotFound(kind, name.to_owned()).into());
    };
    library.version += 1;
    decided(Aggregate::Library(library), Vec::new(), Reply::Nothing(()))
}

fn put_reply(entry: &LibraryEntry, name: &str, changed: bool) -> Reply {
    Reply::LibraryEntry(Box::new(LibraryEntryView {
        changed: Some(changed),
        ..entry.view(name)
    }))
}
