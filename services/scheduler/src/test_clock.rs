//! Moves the test clock. Timers up to the new time fire in order, each at its own virtual instant, and the work
//! that one triggers is finished before the next fires.
//!
//! It runs only with a test clock, and handles one request at a time.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Datelike, TimeDelta, Utc};
use futures_util::StreamExt;
use holdpoint_bus::Bus;
use holdpoint_contracts::message::Reply;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::scheduler::{AdvanceClock, AdvancedClock};
use holdpoint_contracts::subject;
use tokio_util::sync::CancellationToken;

use crate::arming;
use crate::quiescence::QuiescenceProbe;
use crate::store;

/// Longest wait for quiescence after one instant. A request with more is refused.
const SETTLE_MS_MAX: u64 = 60_000;

#[derive(Debug)]
pub(crate) struct TestClock {
    pub(crate) bus: Bus,
    pub(crate) probe: QuiescenceProbe,
}

impl TestClock {
    /// Handles requests one after the other until the service stops.
    pub(crate) async fn run(self, mut requests: async_nats::Subscriber, stop: CancellationToken) {
        while let Some(Some(message)) = stop.run_until_cancelled(requests.next()).await {
            let Some(result) = stop
                .run_until_cancelled(Box::pin(self.handle(&message.payload)))
                .await
            else {
                return;
            };
            if let Err(problem) = &result {
                tracing::warn!(%problem, "test clock not moved");
            }
            let reply = message.reply.map(|reply| reply.to_string());
            let Some(reply) = reply.filter(|inbox| subject::is_inbox(inbox)) else {
                continue;
            };
            match serde_json::to_vec(&Reply::from(result)) {
                Ok(body) => {
                    if let Err(error) = self.bus.send(reply, Bytes::from(body)).await {
                        tracing::warn!(%error, "reply not sent; the caller will ask again");
                    }
                }
                Err(error) => tracing::error!(%error, "reply not serialized"),
            }
        }
    }

    async fn handle(&self, body: &[u8]) -> Result<AdvancedClock, Problem> {
        let request: AdvanceClock = serde_json::from_slice(body)
            .map_err(|error| Problem::invalid_body(format!("advance: {error}")))?;
        let target = i64::try_from(request.by_ms)
            .ok()
            .and_then(TimeDelta::try_milliseconds)
            .and_then(|by| self.now().checked_add_signed(by))
            .filter(|target| target.year() <= 9999)
            .ok_or_else(|| {
                Problem::invalid_body("by_ms: the new time must be before the year 10000")
            })?;
        if request.settle_ms > SETTLE_MS_MAX {
            let detail = format!("settle_ms: must be at most {SETTLE_MS_MAX}");
            return Err(Problem::invalid_body(detail));
        }
        let cap = Duration::from_millis(request.settle_ms);
        let unsettled = self.advance(target, cap).await?;
        Ok(AdvancedClock {
            now: self.now(),
            settled: unsettled.is_empty(),
            unsettled: unsettled.into_values().collect(),
        })
    }

    /// Moves from due time to due time; returns the work that was not finished in time.
    async fn advance(
        &self,
        target: DateTime<Utc>,
        cap: Duration,
    ) -> Result<BTreeMap<String, String>, Problem> {
        let mut unsettled = BTreeMap::new();
        self.deliver_overdue().await?;
        // Timers that running work sets must be in the table before the clock moves.
        self.probe.wait(cap, &mut unsettled).await;
        let began = self.now();
        loop {
            let next = store::next_stop(&self.probe.loader.db, began, self.now()).await;
            let Some(due) = next.map_err(failed)?.filter(|due| *due <= target) else {
                break;
            };
            self.move_to(due)?;
            self.deliver(due).await?;
            self.probe.wait(cap, &mut unsettled).await;
        }
        self.move_to(target)?;
        // Timers of nodes, at which the clock did not stop.
        self.deliver_overdue().await?;
        self.probe.wait(cap, &mut unsettled).await;
        Ok(unsettled)
    }

    async fn deliver_overdue(&self) -> Result<(), Problem> {
        let first = store::next_due(&self.probe.loader.db).await;
        if first.map_err(failed)?.is_some_and(|due| due <= self.now()) {
            self.deliver(self.now()).await?;
        }
        Ok(())
    }

    fn now(&self) -> DateTime<Utc> {
        self.probe.loader.clock.now()
    }

    fn move_to(&self, instant: DateTime<Utc>) -> Result<(), Problem> {
        self.probe.loader.clock.move_to(instant).map_err(failed)
    }

    /// Publishes the bucket of an instant; the durable consumer receives it like any other.
    async fn deliver(&self, due: DateTime<Utc>) -> Result<(), Problem> {
        let shards = 0..subject::TIMER_SHARDS;
        let buckets = shards.filter_map(|shard| arming::immediate((shard, due.timestamp())));
        self.bus
            .publish_all(buckets.collect())
            .await
            .map_err(failed)
    }
}

fn failed(error: impl std::error::Error + 'static) -> Problem {
    tracing::error!(
        error = &error as &dyn std::error::Error,
        "test clock not moved; the request failed"
    );
    Problem::internal()
}
