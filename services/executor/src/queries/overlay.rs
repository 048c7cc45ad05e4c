//! Shows commands for an agent or workspace on its runs at once, before the sweep has updated the rows
//! of these runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdpoint_ids::{AgentName, RunId, Workspace};
use sea_orm::DatabaseConnection;

use super::query_error::QueryError;
use crate::domain::{Run, Scopes, WorkspaceScope, overlay};
use crate::store::{self, Filter};

/// Most pages of rows that one list reads.
const ROUNDS_MAX: usize = 20;

/// Commands that apply to the runs of one workspace.
pub(super) struct Overlay {
    workspace: Option<Arc<WorkspaceScope>>,
    agents: BTreeMap<AgentName, Scopes>,
}

impl Overlay {
    /// Reads the commands for these agents and their workspace.
    pub(super) async fn read(
        db: &DatabaseConnection,
        workspace: &Workspace,
        agents: &[&AgentName],
    ) -> Result<Self, QueryError> {
        let of_all = store::workspace_scope(db, workspace).await?.map(Arc::new);
        let found = store::agents(db, workspace, agents).await?;
        let agents = found.into_iter().map(|agent| {
            let name = agent.name.clone();
            let scopes = Scopes {
                agent: Some(Arc::new(agent)),
                workspace: of_all.clone(),
            };
            (name, scopes)
        });
        Ok(Self {
            agents: agents.collect(),
            workspace: of_all,
        })
    }

    pub(super) fn show(&self, run: Run) -> Run {
        let only_workspace = || Scopes {
            agent: None,
            workspace: self.workspace.clone(),
        };
        let scopes = self.agents.get(&run.agent).cloned();
        overlay(run, &scopes.unwrap_or_else(only_workspace))
    }
}

/// Lists runs with the commands applied, newest first. While a scope is pending, a row may not show the
/// status of its run, so every open run is read.
///
/// Also returns the last run that was read if the list stopped before the end. The next page continues
/// after it.
pub(super) async fn list(
    db: &DatabaseConnection,
    filter: Filter<'_>,
) -> Result<(Vec<Run>, Option<RunId>), QueryError> {
    let or_open = store::has_pending_scope(db, filter.workspace).await? && filter.status.is_some();
    let wanted = usize::try_from(filter.limit).unwrap_or(usize::MAX);
    let mut runs: Vec<Run> = Vec::new();
    let mut before: Option<RunId> = filter.before;
    let mut is_done = false;
    for _ in 0..ROUNDS_MAX {
        let page = Filter {
            before,
            or_open,
            ..filter
        };
        let rows = store::list_runs(db, &page).await?;
        let is_last = rows.len() < wanted;
        before = rows.last().map(|run| run.id);
        let mut agents: Vec<_> = rows.iter().map(|run| &run.agent).collect();
        agents.sort_unstable();
        agents.dedup();
        let overlay = Overlay::read(db, filter.workspace, &agents).await?;
        let shown = rows.into_iter().map(|run| overlay.show(run));
        let has_hold = |run: &Run| filter.hold.is_none_or(|kind| run.waits_on(kind));
        let has_status = |run: &Run| filter.status.is_none_or(|status| run.status() == status);
        runs.extend(shown.filter(|run| has_status(run) && has_hold(run)));
        if is_last || runs.len() >= wanted {
            is_done = true;
            break;
        }
    }
    runs.truncate(wanted);
    Ok((runs, before.filter(|_| !is_done)))
}
