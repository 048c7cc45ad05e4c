//! Moves the test clock: timers up to the new time fire in order, each at its own virtual instant,
//! and what one causes comes to rest before the next.
//!
//! Only with a test clock; otherwise nobody answers. One advance at a time.

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
use crate::settling::Rest;
use crate::store;

/// Longest wait for one instant to come to rest; what is asked for beyond it is refused.
const SETTLE_MS_MAX: u64 = 60_000;

/// Answers requests to move the clock.
#[derive(Debug)]
pub(crate) struct Advance {
    pub(crate) bus: Bus,
    pub(crate) rest: Rest,
}

impl Advance {
    /// Answers until it is told to stop; requests wait for each other.
    pub(crate) async fn run(self, mut requests: async_nats::Subscriber, stop: CancellationToken) {
        while let Some(Some(message)) = stop.run_until_cancelled(requests.next()).await {
            let Some(answer) = stop
                .run_until_cancelled(Box::pin(self.answer(&message.payload)))
                .await
            else {
                return;
            };
            if let Err(problem) = &answer {
                tracing::warn!(%problem, "the clock was not moved as asked");
            }
            let reply = message.reply.map(|reply| reply.to_string());
            let Some(reply) = reply.filter(|inbox| subject::is_inbox(inbox)) else {
                continue;
            };
            match serde_json::to_vec(&Reply::from(answer)) {
                Ok(body) => {
                    if let Err(error) = self.bus.send(reply, Bytes::from(body)).await {
                        tracing::warn!(%error, "an answer was not sent");
                    }
                }
                Err(error) => tracing::error!(%error, "an answer that cannot be written"),
            }
        }
    }

    async fn answer(&self, body: &[u8]) -> Result<AdvancedClock, Problem> {
        let asked: AdvanceClock = serde_json::from_slice(body)
            .map_err(|error| Problem::invalid_body(format!("advance: {error}")))?;
        let target = i64::try_from(asked.by_ms)
            .ok()
            .and_then(TimeDelta::try_milliseconds)
            .and_then(|by| self.now().checked_add_signed(by))
            .filter(|target| target.year() <= 9999)
            .ok_or_else(|| Problem::invalid_body("by_ms: beyond the year 9999"))?;
        if asked.settle_ms > SETTLE_MS_MAX {
            let detail = format!("settle_ms: {SETTLE_MS_MAX} at most");
            return Err(Problem::invalid_body(detail));
        }
        let cap = Duration::from_millis(asked.settle_ms);
        let unsettled = self.advance(target, cap).await?;
        Ok(AdvancedClock {
            now: self.now(),
            settled: unsettled.is_empty(),
            unsettled: unsettled.into_values().collect(),
        })
    }

    /// Moves from due time to due time; returns what did not come to rest.
    async fn advance(
        &self,
        target: DateTime<Utc>,
        cap: Duration,
    ) -> Result<BTreeMap<String, String>, Problem> {
        let mut unsettled = BTreeMap::new();
        self.bring_overdue().await?;
        // Alarms that work in progress sets have to be in the table before the clock moves.
        self.rest.wait(cap, &mut unsettled).await;
        let began = self.now();
        while let Some(due) = self.next_stop(began).await? {
            if due > target {
                break;
            }
            self.move_to(due)?;
            self.bring(due).await?;
            self.rest.wait(cap, &mut unsettled).await;
        }
        self.move_to(target)?;
        // Alarms of nodes that were no place to stop.
        self.bring_overdue().await?;
        self.rest.wait(cap, &mut unsettled).await;
        Ok(unsettled)
    }

    async fn bring_overdue(&self) -> Result<(), Problem> {
        let db = &self.rest.loader.db;
        let first = store::next_due(db).await.map_err(failed)?;
        match first.is_some_and(|due| due <= self.now()) {
            true => self.bring(self.now()).await,
            false => Ok(()),
        }
    }

    fn now(&self) -> DateTime<Utc> {
        self.rest.loader.clock.now()
    }

    fn move_to(&self, instant: DateTime<Utc>) -> Result<(), Problem> {
        self.rest.loader.clock.move_to(instant).map_err(failed)
    }

    async fn next_stop(&self, began: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, Problem> {
        store::next_stop(&self.rest.loader.db, began, self.now())
            .await
            .map_err(failed)
    }

    /// Publishes the bucket of an instant: the durable consumer takes it as it takes any other.
    async fn bring(&self, due: DateTime<Utc>) -> Result<(), Problem> {
        let shards = 0..subject::TIMER_SHARDS;
        let buckets = shards.filter_map(|shard| arming::now((shard, due.timestamp())));
        self.bus
            .publish_all(buckets.collect())
            .await
            .map_err(failed)
    }
}

fn failed(error: impl std::error::Error + 'static) -> Problem {
    tracing::error!(
        error = &error as &dyn std::error::Error,
        "the clock could not be moved on"
    );
    Problem::internal()
}
