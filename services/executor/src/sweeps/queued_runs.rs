//! Starts queued runs when places of their agent are free.
//!
//! A commit that frees a place wakes the sweep with the key. A pass over all keys finds what a kill or another replica
//! has left. The sweep decides nothing: a run that is told of a place looks for one itself.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_kernel::{Sweep, SweepPage};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;
use tokio::time::Instant;

use crate::domain::{Input, RunInput};
use crate::executor::Executor;
use crate::store;
use crate::woken_keys::WokenKeys;

/// Most keys of one page.
const PAGE_KEYS: usize = 100;

/// Runs of one key that a page wakes. A run that takes a place wakes the sweep again.
const WOKEN: usize = 16;

/// Real time between two passes over all keys.
const ALL_EVERY: Duration = Duration::from_secs(5);

pub(super) struct QueuedRuns {
    freed: Arc<WokenKeys<String>>,
    /// The last key of the pass over all keys.
    after: String,
    /// When that pass is due next.
    due: Option<Instant>,
}

impl QueuedRuns {
    pub(super) const fn new(freed: Arc<WokenKeys<String>>) -> Self {
        Self {
            freed,
            after: String::new(),
            due: None,
        }
    }

    async fn next_page(
        &mut self,
        db: &DatabaseConnection,
    ) -> Result<SweepPage<Executor>, StoreError> {
        let begun = self.freed.pending.begun();
        let freed = self.freed.take(PAGE_KEYS);
        if !freed.is_empty() {
            let inputs = inputs(db, &freed, WOKEN).await?;
            return Ok(SweepPage::of_inputs(inputs, true));
        }
        self.freed.pending.end(begun);
        if self.due.is_some_and(|due| Instant::now() < due) {
            return Ok(SweepPage::of_inputs(Vec::new(), false));
        }
        let limit = u64::try_from(PAGE_KEYS).unwrap_or(u64::MAX);
        let keys = store::queued_keys(db, &self.after, limit).await?;
        let is_last = keys.len() < PAGE_KEYS;
        if is_last {
            self.due = Some(Instant::now() + ALL_EVERY);
            self.after.clear();
        } else {
            self.after = keys.last().cloned().unwrap_or_default();
        }
        let inputs = inputs(db, &keys, 1).await?;
        Ok(SweepPage::of_inputs(inputs, !is_last))
    }
}

impl Sweep<Executor> for QueuedRuns {
    const NAME: &'static str = "queued_runs";
    const EVERY: Duration = ALL_EVERY;

    fn page<'a>(
        &'a mut self,
        db: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<Executor>, StoreError>> {
        self.next_page(db).boxed()
    }
}

async fn inputs(
    db: &DatabaseConnection,
    keys: &[String],
    limit: usize,
) -> Result<Vec<Input>, StoreError> {
    let queued = store::first_queued(db, keys, limit).await?.into_iter();
    let inputs = queued.map(|queued| Input::Run {
        workspace: queued.workspace,
        run: queued.run,
        input: RunInput::TakePlace,
    });
    Ok(inputs.collect())
}
