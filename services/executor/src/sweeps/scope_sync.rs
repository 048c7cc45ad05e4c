//! Brings runs to which nothing else happens up to what was commanded for their agent or
//! workspace, page by page.
//!
//! How far the pages of a scope have come is committed with each page, in the scope's own row: a
//! restart goes on there, and a newer command begins again. Nobody waits for a page: decisions and
//! reads consult the scope itself.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_kernel::{KernelStatus, Sweep, SweepPage, SweepTrigger};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;

use crate::Executor;
use crate::domain::scope::{Cursor, Scope};
use crate::domain::{Input, RunInput, ScopeInput};
use crate::store;

/// Most runs of one page, over all scopes that have some.
const PAGE_RUNS: u64 = 500;

/// Most scopes of one page; the others wait until some of these are through.
const PAGE_SCOPES: u64 = 20;

/// Whether pages are known to come: whoever moves the clock waits for them.
#[derive(Debug, Default)]
pub(crate) struct ScopeSyncPending {
    counts: Mutex<Counts>,
    sweep: OnceLock<(SweepTrigger, KernelStatus)>,
}

/// Commands that were committed, and as many of them as have no page left.
#[derive(Debug, Default)]
struct Counts {
    wanted: u64,
    done: u64,
}

impl ScopeSyncPending {
    /// A command for many was committed: its pages begin at once.
    pub(crate) fn begin(&self) {
        let Some((nudge, activity)) = self.sweep.get() else {
            return;
        };
        let mut counts = self.counts();
        counts.wanted += 1;
        activity.begin();
        drop(counts);
        nudge.now();
    }

    /// How many commands there were when a look began.
    fn wanted(&self) -> u64 {
        self.counts().wanted
    }

    /// All that was wanted at the beginning of a look has come.
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

    /// From here on commands wake the sweep.
    pub(super) fn wakes(&self, nudge: SweepTrigger, activity: KernelStatus) {
        drop(self.sweep.set((nudge, activity)));
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sweep of all scopes.
pub(super) struct Following(pub(super) Arc<ScopeSyncPending>);

impl Sweep<Executor> for Following {
    const NAME: &'static str = "following";
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

/// One page of each scope that has some to come: its runs follow, and the scope notes how far that
/// is. Empty: there is nothing to be done.
pub(crate) async fn page(db: &DatabaseConnection) -> Result<Vec<Input>, StoreError> {
    let scopes = store::scopes_to_follow(db, PAGE_SCOPES).await?;
    let Some(runs) = PAGE_RUNS.checked_div(u64::try_from(scopes.len()).unwrap_or(PAGE_RUNS)) else {
        return Ok(Vec::new());
    };
    let mut inputs = Vec::new();
    for (workspace, agent, Scope { epoch, cursor, .. }) in scopes {
        let of = (&workspace, agent.as_ref());
        let page = store::open_runs(db, of, cursor.as_ref(), runs).await?;
        let upto: Option<Cursor> = page.last().cloned();
        inputs.extend(page.into_iter().map(|place| Input::Run {
            workspace: workspace.clone(),
            run: place.run,
            input: RunInput::Follow,
        }));
        inputs.push(Input::Scope {
            workspace,
            agent,
            input: ScopeInput::Paged { epoch, upto },
        });
    }
    Ok(inputs)
}
