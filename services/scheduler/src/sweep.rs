//! Makes good what the bus has lost: arms buckets that enter the horizon, and fires what is overdue.

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

/// A timer that has not fired so long after its due time was missed by the bus.
const OVERDUE: TimeDelta = TimeDelta::seconds(2);

/// How far a sweep looks back behind the one before: what was committed while that one read.
const OVERLAP: TimeDelta = TimeDelta::seconds(60);

/// How long a timer that has fired or was cleared is kept: longer than any wait, so that no desired state
/// that was made for it can still be on its way.
const KEPT: TimeDelta = TimeDelta::days(100);

/// How often such timers are looked for.
const FORGET_EVERY: TimeDelta = TimeDelta::hours(1);

/// Schedules that are published together.
const BUCKETS_PER_BATCH: usize = 1_000;

/// Looks through the table, at the start and from time to time.
#[derive(Debug)]
pub(crate) struct Sweeper {
    pub(crate) bus: Bus,
    pub(crate) loader: Loader,
    pub(crate) arming: Arc<Arming>,
    /// Everything due before is armed.
    pub(crate) armed_until: Option<DateTime<Utc>>,
    pub(crate) losses: LossDetector,
    /// When what is over is looked for next.
    pub(crate) forget_at: Option<DateTime<Utc>>,
}

/// A sweep was not finished; the next one does it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SweepError {
    #[error("the table could not be read")]
    Store(#[from] StoreError),
    #[error("buckets could not be armed")]
    Bus(#[from] BusError),
}

impl Sweeper {
    /// Fires what came due while no scheduler was there.
    pub(crate) async fn start(&self) -> Result<(), StoreError> {
        let now = self.loader.clock.now();
        let missed = self.loader.load(now + TimeDelta::milliseconds(1)).await?;
        if missed.count > 0 {
            tracing::info!(
                timers = missed.count,
                "came due while no scheduler was there"
            );
        }
        Ok(())
    }

    /// Sweeps until it is told to stop; never with a test clock, where moving it does the work.
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
                    "a sweep failed; the next one makes it good"
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
                "overdue: their buckets have not come"
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
            self.arming.armed(timers);
        }
        self.armed_until = Some(to);
        self.forget(now).await?;
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
                "the bus has lost schedules; all that are due within a day are armed again"
            );
            self.arming.forget();
            self.armed_until = None;
        }
        Ok(())
    }

    /// Forgets what is over for long, page by page; other writers get in between.
    async fn forget(&mut self, now: DateTime<Utc>) -> Result<(), StoreError> {
        let soon = now + FORGET_EVERY;
        // A clock that was set back must not put it off for longer than that.
        if self.forget_at.is_some_and(|at| now < at && at <= soon) {
            return Ok(());
        }
        let mut forgotten = 0;
        loop {
            let page = store::forget(&self.loader.db, now - KEPT).await?;
            forgotten += page;
            if page < store::FORGOTTEN_AT_ONCE {
                break;
            }
        }
        self.forget_at = Some(soon);
        if forgotten > 0 {
            tracing::info!(timers = forgotten, "over for long and forgotten");
        }
        Ok(())
    }
}
