//! Templates and calendars of the workspace: their check, and how an agent names them.

use holdpoint_contracts::executor::LibraryKind;
use holdpoint_contracts::problem::FieldError;
use holdpoint_ids::nearest;
use serde_json::Value;

use super::calendar::CALENDAR;
use super::diagnostics::{AgentChecker, MAX_NAME, Place, is_name, shown};
use crate::domain::expression::diagnostic;

/// Everything that is wrong with a template or a calendar of a workspace.
pub(crate) fn library_entry_errors(
    kind: LibraryKind,
    name: &str,
    value: &Value,
) -> Vec<FieldError> {
    let mut checker = AgentChecker::new("");
    if !is_name(name) {
        let message = format!(
            "The name of a {kind} has 1 to {MAX_NAME} letters, digits, dots, underscores or hyphens and starts with a letter or digit."
        );
        checker.report_field("name", &shown(&name.into()), message);
        return checker.answer();
    }
    match kind {
        LibraryKind::Template => {
            checker.read_template(name, value);
        }
        LibraryKind::Calendar if value.is_object() => {
            checker.calendar(Some(value));
        }
        LibraryKind::Calendar => {
            let message = "A calendar is an object, such as `{ time_zone: Europe/Berlin }`.";
            checker.report_field(CALENDAR, &shown(value), message);
        }
    }
    checker.answer()
}

impl<'t> AgentChecker<'t> {
    /// The calendar that an agent writes or names. `None`: it has none, or the name is unknown.
    pub(super) fn calendar_value<'v>(&mut self, value: Option<&'v Value>) -> Option<&'v Value>
    where
        't: 'v,
    {
        let Some(Value::String(name)) = value else {
            return value;
        };
        let library = self.library;
        let entry = library.and_then(|library| library.calendars.get(name));
        if entry.is_none() {
            let name = shown(&name.as_str().into());
            let message = format!(
                "The workspace has no calendar `{name}`. Store it with `holdpoint calendar put`, or write an object."
            );
            let names = library.into_iter().flat_map(|it| it.calendars.keys());
            let error = FieldError {
                nearest: nearest(&name, names.map(String::as_str)),
                ..diagnostic(&name, message)
            };
            self.report(Place::Agent(Some(CALENDAR)), error);
        }
        entry.map(|entry| &entry.value)
    }

    /// Takes a template of the workspace, if the agent has none of this name.
    pub(super) fn take_from_library(&mut self, name: &str) {
        if self.mails.by_name.contains_key(name) {
            return;
        }
        let entry = self.library.and_then(|library| library.templates.get(name));
        if let Some(entry) = entry
            && let Some(mail) = self.read_template(name, &entry.value)
        {
            self.mails.by_name.insert(name.to_owned(), mail);
        }
    }

    /// The names of all templates that the agent may use.
    pub(super) fn template_names(&self) -> impl Iterator<Item = &str> {
        let of_workspace = self.library.into_iter().flat_map(|it| it.templates.keys());
        let names = self.mails.by_name.keys().chain(of_workspace);
        names.map(String::as_str)
    }
}
