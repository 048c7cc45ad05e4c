//! The snapshot of a run, and which runs have ended (S1-R6, S1-R8).

use std::collections::BTreeSet;

use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::suspension::{ENDED_RUNS_MAX, EndedRuns, GetSnapshot, SnapshotView};
use holdpoint_ids::{RunId, Workspace};

use super::ExecutorQueries;
use super::query_error::QueryError;
use crate::store;

impl ExecutorQueries {
    /// Which of the runs have ended, or do not exist in this workspace.
    pub(super) async fn ended_runs(
        &self,
        workspace: &Workspace,
        query: &EndedRuns,
    ) -> Result<Vec<RunId>, QueryError> {
        let runs = &query.runs;
        if runs.len() > ENDED_RUNS_MAX {
            let detail = format!("{} runs; at most {ENDED_RUNS_MAX} are allowed", runs.len());
            return Err(QueryError(Problem::invalid_body(detail)));
        }
        let found = store::runs(&self.db, runs).await?.into_iter();
        let live = found.filter(|run| run.workspace == *workspace && !run.is_final());
        let live: BTreeSet<_> = live.map(|run| run.id).collect();
        let ended = runs.iter().copied().filter(|id| !live.contains(id));
        Ok(ended.collect())
    }

    /// The newest snapshot of a run; none: it was never suspended.
    pub(super) async fn snapshot(
        &self,
        workspace: &Workspace,
        query: &GetSnapshot,
    ) -> Result<Option<SnapshotView>, QueryError> {
        let run = self.find_run(workspace, query.run).await?;
        let Some(view) = store::snapshot_of(&self.db, query.run).await? else {
            return Ok(None);
        };
        // A step may have ended since then.
        let suspension = run.suspension.as_deref();
        let is_complete = suspension.is_some_and(|it| it.is_complete(&run));
        Ok(Some(SnapshotView {
            complete: view.complete || is_complete,
            ..view
        }))
    }
}
