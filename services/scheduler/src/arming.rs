//! Which buckets are armed on the bus, and the messages that arm them.
//!
//! A schedule is a hint and never the truth: a lost one costs the time until the next sweep. What is
//! known here is lost with the process, which is harmless: arming again replaces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use holdpoint_bus::Outgoing;
use holdpoint_clock::Clock;
use holdpoint_contracts::scheduler::DueBucket;
use holdpoint_contracts::subject;

use crate::outbound::json;

/// How long before its second a bucket is fired: hints come up to 0.6 s late (`reference/nats.md`).
pub(crate) const MARGIN: TimeDelta = TimeDelta::seconds(1);

/// A schedule is relied on only when it fires so much later than now: the server needs 250 ms at
/// least, and timers that were decided on just before must be committed when the bucket is read.
const GUARD: TimeDelta = TimeDelta::milliseconds(500);

/// How long a fired bucket is kept. A scheduler that is away longer finds its timers by its sweep.
const FIRED_TTL: &str = "60s";

/// One bucket: a shard and the second within which its timers are due.
pub(crate) type Bucket = (u32, i64);

/// The buckets that are armed.
#[derive(Debug)]
pub(crate) struct Arming {
    clock: Clock,
    armed: Mutex<BTreeSet<Bucket>>,
}

/// How a bucket gets to the durable consumer.
#[derive(Debug, PartialEq, Eq)]
enum Way {
    /// By a schedule of the server that fires then.
    At(DateTime<Utc>),
    /// At once.
    Now,
    /// Not at all: the test clock brings it when it is moved.
    Never,
}

impl Arming {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            armed: Mutex::default(),
        }
    }

    /// The messages that arm what is not yet armed.
    pub(crate) fn messages(
        &self,
        timers: impl IntoIterator<Item = (u32, DateTime<Utc>)>,
    ) -> Vec<Outgoing> {
        let mut scheduled = BTreeMap::new();
        // A bucket brings everything that is due before its end: the last one is enough.
        let mut direct: BTreeMap<u32, i64> = BTreeMap::new();
        let armed = self.lock();
        for (shard, due) in timers {
            let second = due.timestamp();
            match self.way(due) {
                Way::At(at) if !armed.contains(&(shard, second)) => {
                    scheduled.insert((shard, second), at);
                }
                Way::Now => {
                    let last = direct.entry(shard).or_insert(second);
                    *last = second.max(*last);
                }
                Way::At(_) | Way::Never => {}
            }
        }
        drop(armed);
        let direct = direct.into_iter().filter_map(now);
        let scheduled = scheduled
            .into_iter()
            .filter_map(|(bucket, at)| schedule(bucket, at));
        direct.chain(scheduled).collect()
    }

    /// Remembers that the messages for these are on their way for good.
    pub(crate) fn armed(&self, timers: impl IntoIterator<Item = (u32, DateTime<Utc>)>) {
        let later = timers
            .into_iter()
            .filter(|(_, due)| matches!(self.way(*due), Way::At(_)))
            .map(|(shard, due)| (shard, due.timestamp()))
            .collect::<Vec<_>>();
        self.lock().extend(later);
    }

    /// Forgets buckets that have passed.
    pub(crate) fn prune(&self) {
        let now = self.clock.now().timestamp();
        self.lock().retain(|(_, second)| *second >= now);
    }

    /// The buckets that are armed for later than an instant: the bus has at least their schedules.
    pub(crate) fn later_than(&self, instant: DateTime<Utc>) -> BTreeSet<Bucket> {
        let second = instant.timestamp();
        let armed = self.lock();
        armed
            .iter()
            .filter(|(_, of)| *of > second)
            .copied()
            .collect()
    }

    /// Nothing counts as armed any more.
    pub(crate) fn forget(&self) {
        self.lock().clear();
    }

    fn way(&self, due: DateTime<Utc>) -> Way {
        let now = self.clock.now();
        if self.clock.is_test() {
            return if due <= now { Way::Now } else { Way::Never };
        }
        match DateTime::from_timestamp(due.timestamp(), 0) {
            Some(second) if second - MARGIN > now + GUARD => Way::At(second - MARGIN),
            Some(_) | None => Way::Now,
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<Bucket>> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The message that brings a bucket at once.
pub(crate) fn now((shard, second): Bucket) -> Option<Outgoing> {
    let message = json(subject::timer_due(shard), &DueBucket { shard, second })?;
    Some(message.header("Nats-TTL", FIRED_TTL))
}

fn schedule((shard, second): Bucket, at: DateTime<Utc>) -> Option<Outgoing> {
    let at = at.to_rfc3339_opts(SecondsFormat::Millis, true);
    let bucket = DueBucket { shard, second };
    let message = json(subject::timer_bucket(shard, second), &bucket)?
        .header("Nats-Schedule", format!("@at {at}"))
        .header("Nats-Schedule-Target", subject::timer_due(shard))
        .header("Nats-Schedule-TTL", FIRED_TTL);
    Some(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subjects(messages: &[Outgoing]) -> Vec<&str> {
        messages.iter().map(|one| one.subject.as_str()).collect()
    }

    #[test]
    fn a_bucket_is_armed_once_and_a_near_one_goes_to_the_consumer_at_once() {
        let arming = Arming::new(Clock::system());
        let now = arming.clock.now();
        let far = now + TimeDelta::seconds(60);
        let timers = [(0, far), (0, far), (0, now), (0, now + GUARD)];
        let messages = arming.messages(timers);
        let bucket = subject::timer_bucket(0, far.timestamp());
        assert_eq!(subjects(&messages), ["hp.timers.due.0", &bucket]);
        // Not committed: it is tried again.
        assert_eq!(arming.messages(timers).len(), 2);
        arming.armed(timers);
        assert_eq!(subjects(&arming.messages(timers)), ["hp.timers.due.0"]);
    }

    #[test]
    fn with_the_test_clock_nothing_is_armed_and_only_what_is_due_goes_out() {
        let now = DateTime::UNIX_EPOCH;
        let arming = Arming::new(Clock::standing_at(now));
        assert_eq!(arming.messages([(0, now + TimeDelta::milliseconds(1))]), []);
        assert_eq!(subjects(&arming.messages([(0, now)])), ["hp.timers.due.0"]);
    }
}
