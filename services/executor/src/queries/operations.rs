//! Operations: what one would do, how far one is, and what it did with each run.

use holdpoint_contracts::operation::{
    GetOperation, HOLD_FILTER_RUNS_MAX, ListOperationResults, ListOperations, OPERATION_RUNS_MAX,
    OperationView, PlanOperation, PlannedOperation, RunResultView,
};
use holdpoint_contracts::run::Page;
use holdpoint_ids::{OperationId, Workspace};
use holdpoint_kernel::{check_limit, cut_page};

use super::query_error::QueryError;
use super::{ExecutorQueries, read_cursor};
use crate::domain::{Operation, Refusal, check_action};
use crate::store;

/// Runs of one page of a count.
const COUNTED: u64 = 500;

impl ExecutorQueries {
    /// Counts the runs that match; an action that every run would refuse is refused.
    pub(super) async fn plan_operation(
        &self,
        workspace: &Workspace,
        query: &PlanOperation,
    ) -> Result<PlannedOperation, QueryError> {
        let PlanOperation { action, filter } = query;
        check_action(action, filter)?;
        let filter = store::Filter::of_operation(workspace, action, filter, COUNTED);
        let (most, refusal) = match filter.hold {
            Some(_) => (HOLD_FILTER_RUNS_MAX, Refusal::HoldFilterTooWide),
            None => (OPERATION_RUNS_MAX, Refusal::TooManyRuns),
        };
        let bounded = store::Filter {
            limit: most + 1,
            ..filter
        };
        let mut matched = store::count_runs(&self.db, &bounded).await?;
        if matched > most {
            return Err(refusal.into());
        }
        if filter.hold.is_some() {
            matched = self.count_holds(filter).await?;
        }
        Ok(PlannedOperation { matched })
    }

    /// The kind of hold is in the state of a run only, so the states are read.
    async fn count_holds(&self, mut filter: store::Filter<'_>) -> Result<u64, QueryError> {
        let mut matched = 0;
        loop {
            let runs = store::list_runs(&self.db, &filter).await?;
            let hold = filter.hold;
            let waits = |run: &&_| hold.is_none_or(|kind| crate::domain::Run::waits_on(run, kind));
            matched += u64::try_from(runs.iter().filter(waits).count()).unwrap_or(COUNTED);
            if u64::try_from(runs.len()).is_ok_and(|count| count < COUNTED) {
                return Ok(matched);
            }
            filter.before = runs.last().map(|run| run.id);
        }
    }

    async fn find_operation(
        &self,
        workspace: &Workspace,
        id: OperationId,
    ) -> Result<Operation, QueryError> {
        let found = store::operation(&self.db, workspace, id).await?;
        Ok(found.ok_or(Refusal::OperationNotFound(id))?)
    }

    pub(super) async fn operation(
        &self,
        workspace: &Workspace,
        query: &GetOperation,
    ) -> Result<OperationView, QueryError> {
        let operation = self.find_operation(workspace, query.id).await?;
        let counts = store::result_counts(&self.db, query.id).await?;
        Ok(OperationView {
            counts: Some(counts),
            ..operation.view()
        })
    }

    pub(super) async fn operations(
        &self,
        workspace: &Workspace,
        query: &ListOperations,
    ) -> Result<Page<OperationView>, QueryError> {
        let limit = check_limit(query.limit)?;
        let before = read_cursor(query.cursor.as_deref())?;
        let found = store::list_operations(&self.db, workspace, before, limit + 1).await?;
        let views = found.iter().map(Operation::view).collect();
        Ok(cut_page(views, limit, |view: &OperationView| {
            view.id.to_string()
        }))
    }

    pub(super) async fn operation_results(
        &self,
        workspace: &Workspace,
        query: &ListOperationResults,
    ) -> Result<Page<RunResultView>, QueryError> {
        let limit = check_limit(query.limit)?;
        let after = read_cursor(query.cursor.as_deref())?;
        let id = self.find_operation(workspace, query.id).await?.id;
        let views = store::list_results(&self.db, id, query.result, after, limit + 1).await?;
        Ok(cut_page(views, limit, |view: &RunResultView| {
            view.run.to_string()
        }))
    }
}
