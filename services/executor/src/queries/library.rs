//! Reads of the templates and calendars of a workspace.

use holdpoint_contracts::executor::{GetLibraryEntry, LibraryEntryView, ListLibrary};
use holdpoint_contracts::run::Page;
use holdpoint_ids::Workspace;

use super::ExecutorQueries;
use super::query_error::QueryError;
use crate::domain::Refusal;
use crate::store;

impl ExecutorQueries {
    pub(super) async fn library(
        &self,
        workspace: &Workspace,
        query: &ListLibrary,
    ) -> Result<Page<LibraryEntryView>, QueryError> {
        let library = store::library(&self.db, workspace).await?;
        let entries = library.iter().flat_map(|it| it.entries(query.kind));
        let views = entries.map(|(name, entry)| entry.list_view(name));
        Ok(Page::from(views.collect::<Vec<_>>()))
    }

    pub(super) async fn library_entry(
        &self,
        workspace: &Workspace,
        query: GetLibraryEntry,
    ) -> Result<LibraryEntryView, QueryError> {
        let library = store::library(&self.db, workspace).await?;
        let entry = library
            .as_ref()
            .and_then(|it| it.entries(query.kind).get(&query.name));
        let view = entry.map(|entry| entry.view(&query.name));
        Ok(view.ok_or(Refusal::LibraryEntryNotFound(query.kind, query.name))?)
    }
}
