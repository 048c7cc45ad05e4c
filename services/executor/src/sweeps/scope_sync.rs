//! Applies commands for an agent or workspace to its runs, page by page.
//!
//! Each page commits its position in the scope's row: a restart continues there, and a newer command
//! begins again. No decision and no read waits for a page, because both consult the scope itself. The sweep
//! is for runs that receive no other input.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_kernel::{PendingSweep, Sweep, SweepPage};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;

use crate::domain::scope::Cursor;
use crate::domain::{Input, RunInput, ScopeInput};
use crate::executor::Executor;
use crate::store;

/// Most runs of one page, over all scopes.
const PAGE_RUNS: u64 = 500;

/// Most scopes of one page; further ones wait until some of these are finished.
const PAGE_SCOPES: u64 = 20;

pub(super) struct ScopeSync(pub(super) Arc<PendingSweep>);

impl Sweep<Executor> for ScopeSync {
    const NAME: &'static str = "scope_sync";
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

/// One page of each pending scope: inputs that apply it to its runs, and the input that records the
/// position. An empty page means that no scope is pending.
pub(crate) async fn page(db: &DatabaseConnection) -> Result<Vec<Input>, StoreError> {
    let scopes = store::pending_scopes(db, PAGE_SCOPES).await?;
    let Some(runs) = PAGE_RUNS.checked_div(u64::try_from(scopes.len()).unwrap_or(PAGE_RUNS)) else {
        return Ok(Vec::new());
    };
    let mut inputs = Vec::new();
    for (workspace, agent, scope) in scopes {
        let of = (&workspace, agent.as_ref());
        let page = store::open_runs(db, of, scope.cursor.as_ref(), runs).await?;
        let upto: Option<Cursor> = page.last().cloned();
        inputs.extend(page.into_iter().map(|place| Input::Run {
            workspace: workspace.clone(),
            run: place.run,
            input: RunInput::ApplyScopes,
        }));
        inputs.push(Input::Scope {
            workspace,
            agent,
            input: ScopeInput::Paged {
                epoch: scope.epoch,
                upto,
            },
        });
    }
    Ok(inputs)
}
