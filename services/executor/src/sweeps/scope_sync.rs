//! Applies commands for an agent or workspace to its runs, page by page.
//!
//! Each page commits its position in the scope's row: a restart continues there, and a newer command
//! begins again. No decision and no read waits for a page, because both consult the scope itself. The sweep
//! is for runs that receive no other input.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_kernel::{KernelStatus, Sweep, SweepPage, SweepTrigger};
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

/// Counts commands with unfinished pages. A moved test clock waits until there are none.
#[derive(Debug, Default)]
pub(crate) struct ScopeSyncPending {
    counts: Mutex<Counts>,
    sweep: OnceLock<(SweepTrigger, KernelStatus)>,
}

/// Committed commands, and those of them without a page left.
#[derive(Debug, Default)]
struct Counts {
    wanted: u64,
    done: u64,
}

impl ScopeSyncPending {
    /// Starts the pages of a committed command at once.
    pub(crate) fn begin(&self) {
        let Some((trigger, activity)) = self.sweep.get() else {
            return;
        };
        let mut counts = self.counts();
        counts.wanted += 1;
        activity.begin();
        drop(counts);
        trigger.now();
    }

    /// The number of commands when a page begins.
    fn wanted(&self) -> u64 {
        self.counts().wanted
    }

    /// Ends the commands that were counted before an empty page. Later commands keep their pages.
    fn end(&self, wanted: u64) {
        let Some((_, activity)) = self.sweep.get() else {
            return;
        };
        let mut counts = self.counts();
        while counts.done < wanted {
            counts.done += 1;
            activity.end();
        }
    }

    /// Connects the sweep, which [`Self::begin`] triggers from now on.
    pub(super) fn connect(&self, trigger: SweepTrigger, activity: KernelStatus) {
        drop(self.sweep.set((trigger, activity)));
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sweep of all scopes.
pub(super) struct ScopeSync(pub(super) Arc<ScopeSyncPending>);

impl Sweep<Executor> for ScopeSync {
    const NAME: &'static str = "scope_sync";
    const EVERY: Duration = Duration::from_millis(200);

    fn page<'a>(
        &'a mut self,
        db: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<Executor>, StoreError>> {
        async move {
            let wanted = self.0.wanted();
            let inputs = page(db).await?;
            if inputs.is_empty() {
                self.0.end(wanted);
            }
            Ok(SweepPage {
                more: !inputs.is_empty(),
                inputs,
                messages: Vec::new(),
            })
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
    for pending in scopes {
        let store::PendingScope {
            workspace,
            agent,
            scope,
        } = pending;
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
