//! Works through the runs of operations, page by page.
//!
//! Each page commits its position in the operation's row, and the result of each run. So a restart continues there, and
//! a page that two replicas have read takes effect once.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_contracts::operation::OPERATION_RUNS_MAX;
use holdpoint_kernel::{PendingSweep, Sweep, SweepPage};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;

use crate::domain::{Input, Operation, OperationInput, OperationItem, input_of_action};
use crate::executor::Executor;
use crate::store;

/// Most runs of one page, over all operations. Other commands wait for its commit.
const PAGE_RUNS: u64 = 200;

/// Most operations of one page; further ones wait until some of these are finished.
const PAGE_OPERATIONS: u64 = 20;

pub(super) struct Operations(pub(super) Arc<PendingSweep>);

impl Sweep<Executor> for Operations {
    const NAME: &'static str = "operations";
    /// A command starts the sweep at once. This finds what a stopped replica has not finished.
    const EVERY: Duration = Duration::from_secs(5);

    fn page<'a>(
        &'a mut self,
        db: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<Executor>, StoreError>> {
        async move {
            let begun = self.0.begun();
            let inputs = page(db).await?;
            if inputs.is_empty() {
                self.0.end(begun);
            }
            let more = !inputs.is_empty();
            Ok(SweepPage::of_inputs(inputs, more))
        }
        .boxed()
    }
}

/// One page of each operation: its action for each run, and the input that records the position.
pub(crate) async fn page(db: &DatabaseConnection) -> Result<Vec<Input>, StoreError> {
    let operations = store::unfinished_operations(db, PAGE_OPERATIONS).await?;
    let count = u64::try_from(operations.len()).unwrap_or(PAGE_RUNS);
    let Some(runs) = PAGE_RUNS.checked_div(count) else {
        return Ok(Vec::new());
    };
    let mut inputs = Vec::new();
    for operation in operations {
        inputs.extend(page_of(db, &operation, runs).await?);
    }
    Ok(inputs)
}

async fn page_of(
    db: &DatabaseConnection,
    operation: &Operation,
    runs: u64,
) -> Result<Vec<Input>, StoreError> {
    let left = OPERATION_RUNS_MAX.saturating_sub(operation.taken);
    let limit = runs.min(left).max(1);
    let Operation {
        workspace,
        action,
        filter,
        ..
    } = operation;
    // One more run tells whether the page is the last one.
    let filter = store::Filter {
        created_until: Some(operation.created_at),
        before: operation.cursor,
        ..store::Filter::of_operation(workspace, action, filter, limit + 1)
    };
    let mut found = store::list_runs(db, &filter).await?;
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let is_last = found.len() <= most;
    found.truncate(most);
    let upto = found.last().map(|run| run.id).filter(|_| !is_last);
    let hold = filter.hold;
    let matching = found
        .iter()
        .filter(|run| hold.is_none_or(|kind| run.waits_on(kind)));
    let input = Arc::new(input_of_action(operation));
    let items = matching.map(|run| {
        Input::OperationItem(OperationItem {
            workspace: operation.workspace.clone(),
            run: run.id,
            operation: operation.id,
            input: Arc::clone(&input),
            user: operation.user(),
        })
    });
    let mut inputs: Vec<_> = items.collect();
    let runs = u64::try_from(inputs.len()).unwrap_or(limit);
    inputs.push(Input::Operation {
        workspace: operation.workspace.clone(),
        id: operation.id,
        input: OperationInput::Paged {
            after: operation.cursor,
            upto,
            runs,
        },
    });
    Ok(inputs)
}
