//! Repairs what the bus has lost: arms buckets that enter the horizon, and fires overdue timers.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_bus::{Bus, BusError, StreamUse};
use holdpoint_store::StoreError;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::arming::Arming;
use crate::buckets::Loader;
use crate::domain::HORIZON;
use crate::lost_schedules::LossDetector;
use crate::store;

/// Real time between two sweeps.
const EVERY: Duration = Duration::from_secs(10);

/// The bus has lost the bucket of a timer that is overdue by this time.
const OVERDUE: TimeDelta = TimeDelta::seconds(2);

/// How far two sweeps overlap, because timers may be committed while a sweep reads.
const OVERLAP: TimeDelta = TimeDelta::seconds(60);

/// How long a fired or cleared timer is kept: longer than any wait, so that no desired state for it can
/// arrive later.
const KEPT: TimeDelta = TimeDelta::days(100);

/// How often such timers are deleted.
const DELETE_EVERY: TimeDelta = TimeDelta::hours(1);

/// Schedules that are published at once.
const BUCKETS_PER_BATCH: usize = 1_000;

/// Reads the table at the start and every [`EVERY`].
#[derive(Debug)]
pub(crate) struct Sweeper {
    pub(crate) bus: Bus,
    pub(crate) loader: Loader,
    pub(crate) arming: Arc<Arming>,
    /// All timers that are due before it are armed.
    pub(crate) armed_until: Option<DateTime<Utc>>,
    pub(crate) losses: LossDetector,
    /// When old timers are deleted next.
    pub(crate) delete_at: Option<DateTime<Utc>>,
}

/// Why a sweep was not finished. The next one continues.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SweepError {
    #[error("the table could not be read")]
    Store(#[from] StoreError),
    #[error("buckets could not be armed")]
    Bus(#[from] BusError),
}

impl Sweeper {
    /// Fires timers that came due while no scheduler ran.
    pub(crate) async fn start(&self) -> Result<(), StoreError> {
        let now = self.loader.clock.now();
        let missed = self.loader.load(now + TimeDelta::milliseconds(1)).await?;
        if missed.count > 0 {
            tracing::info!(
                timers = missed.count,
                "timers came due while no scheduler ran; they fire now"
            );
        }
        Ok(())
    }

    /// Sweeps until the service stops. With a test clock, moving it does this work.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        if self.loader.clock.is_test() {
            return;
        }
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            if let Err(error) = self.sweep().await {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "sweep failed; the next one tries again"
                );
            }
        }
    }

    async fn sweep(&mut self) -> Result<(), SweepError> {
        let now = self.loader.clock.now();
        let overdue = self.loader.load(now - OVERDUE).await?;
        if overdue.count > 0 {
            tracing::warn!(
                timers = overdue.count,
                "timers overdue because their buckets were not delivered; they fire now"
            );
        }
        self.arming.prune();
        self.rearm_after_loss(now).await?;
        let from = self
            .armed_until
            .map_or(now, |until| (until - OVERLAP).max(now));
        let to = now + HORIZON;
        let buckets: Vec<_> = store::buckets(&self.loader.db, from, to)
            .await?
            .into_iter()
            .collect();
        for buckets in buckets.chunks(BUCKETS_PER_BATCH) {
            let timers = buckets.iter().filter_map(|(shard, second)| {
                Some((*shard, DateTime::from_timestamp(*second, 0)?))
            });
            let messages = self.arming.messages(timers.clone());
            self.bus.publish_all(messages).await?;
            self.arming.set_armed(timers);
        }
        self.armed_until = Some(to);
        self.delete_old(now).await?;
        Ok(())
    }

    /// Arms everything again if the bus has lost schedules, because its stream was purged or recreated
    /// (B-12). Otherwise each of those timers would be late.
    async fn rearm_after_loss(&mut self, now: DateTime<Utc>) -> Result<(), SweepError> {
        // A schedule that is about to fire may be gone already if the server's clock is ahead of ours.
        let armed = self.arming.later_than(now + OVERLAP);
        if armed.is_empty() {
            return Ok(());
        }
        let expected = armed.len();
        let stored = self.bus.stored(StreamUse::Timers).await?;
        if self
            .losses
            .is_loss(armed, usize::try_from(stored).unwrap_or(usize::MAX))
        {
            tracing::warn!(
                stored,
                expected,
                "the bus has lost schedules; all timers of the next 24 hours are armed again"
            );
            self.arming.clear();
            self.armed_until = None;
        }
        Ok(())
    }

    /// Deletes old timers page by page, so that other writers are not blocked.
    async fn delete_old(&mut self, now: DateTime<Utc>) -> Result<(), StoreError> {
        let soon = now + DELETE_EVERY;
        // A clock that was set back must not delay it for longer than that.
        if self.delete_at.is_some_and(|at| now < at && at <= soon) {
            return Ok(());
        }
        let mut deleted = 0;
        loop {
            let page = store::delete_old(&self.loader.db, now - KEPT).await?;
            deleted += page;
            if page < store::DELETED_AT_ONCE {
                break;
            }
        }
        self.delete_at = Some(soon);
        if deleted > 0 {
            tracing::info!(timers = deleted, "old timers deleted");
        }
        Ok(())
    }
}
