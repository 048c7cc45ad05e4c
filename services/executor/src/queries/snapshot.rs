//! `GET /runs/{run}/snapshot` (S1-R6).

use holdpoint_contracts::suspension::{GetSnapshot, SnapshotView};
use holdpoint_ids::Workspace;

use super::ExecutorQueries;
use super::query_error::QueryError;
use crate::store;

impl ExecutorQueries {
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
