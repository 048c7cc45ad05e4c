//! Brings runs to which nothing else happens up to what was commanded for their agent or
//! workspace, page by page.
//!
//! How far the pages of a scope have come is committed with each page, in the scope's own row: a
//! restart goes on there, and a newer command begins again. Nobody waits for a page: decisions and
//! reads consult the scope itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_kernel::{Activity, Sweep, SweepNudge, SweepPage};
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
pub(crate) struct PagesToCome {
    /// Commands that were committed.
    wanted: AtomicU64,
    /// As many of them as have no page left.
    done: AtomicU64,
    sweep: OnceLock<(SweepNudge, Activity)>,
}

impl PagesToCome {
    /// A command for many was committed: its pages begin at once.
    pub(crate) fn begin(&self) {
        let Some((nudge, activity)) = self.sweep.get() else {
            return;
        };
        if self.wanted.fetch_add(1, Ordering::AcqRel) == self.done.load(Ordering::Acquire) {
            activity.begin();
        }
        nudge.now();
    }

    /// All that was wanted at the beginning of a look has come.
    fn end(&self, wanted: u64) {
        let Some((_, activity)) = self.sweep.get() else {
            return;
        };
        let before = self.done.swap(wanted, Ordering::AcqRel);
        if before < wanted {
            activity.end();
            // More was wanted meanwhile: it is counted in anew.
            if self.wanted.load(Ordering::Acquire) > wanted {
                activity.begin();
            }
        }
    }

    /// From here on commands wake the sweep.
    pub(super) fn wakes(&self, nudge: SweepNudge, activity: Activity) {
        drop(self.sweep.set((nudge, activity)));
    }
}

/// The sweep of all scopes.
pub(super) struct Following(pub(super) Arc<PagesToCome>);

impl Sweep<Executor> for Following {
    const NAME: &'static str = "following";
    const EVERY: Duration = Duration::from_millis(200);

    fn page<'a>(
        &'a mut self,
        db: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<Executor>, StoreError>> {
        async move {
            let wanted = self.0.wanted.load(Ordering::Acquire);
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
