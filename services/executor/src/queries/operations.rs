//! Operations: what one would do, how far one is, and what it did with each run.

use holdpoint_contracts::operation::{
    GetOperation, ListOperationResults, ListOperations, OPERATION_RUNS_MAX, OperationView,
    PlanOperation, PlannedOperation, RunResultView,
};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::run::Page;
use holdpoint_ids::{OperationId, Workspace};
use holdpoint_kernel::{check_limit, cut_page};

use super::ExecutorQueries;
use super::query_error::QueryError;
use crate::domain::{Operation, Refusal, check_action, selected_status};
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
        let selected = selected_status(action, filter);
        let label = filter.label.as_deref();
        let filter = store::Filter {
            workspace,
            status: selected.status,
            or_open: false,
            hold: filter.hold,
            agent: filter.agent.as_ref(),
            label: label.and_then(|label| label.split_once('=')),
            created_after: filter.created_after,
            created_until: None,
            is_open: selected.is_open,
            before: None,
            limit: COUNTED,
        };
        let mut matched = store::count_runs(&self.db, &filter).await?;
        if matched > OPERATION_RUNS_MAX {
            return Err(Refusal::TooManyRuns(matched).into());
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

fn read_cursor<I: std::str::FromStr>(cursor: Option<&str>) -> Result<Option<I>, Problem> {
    let cursor = cursor.map(str::parse).transpose();
    cursor.map_err(|_no_id| {
        let detail = "invalid `cursor`; expected the `next_cursor` of a page";
        Problem::new(400, "invalid_query", detail)
    })
}
