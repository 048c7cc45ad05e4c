//! The buckets that are armed on the bus, and the messages that arm them.
//!
//! A schedule is only a hint: a lost one costs the time until the next sweep. This memory is lost with the
//! process, which is harmless, because arming a bucket again replaces its schedule.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use holdpoint_bus::Outgoing;
use holdpoint_clock::Clock;
use holdpoint_contracts::scheduler::DueBucket;
use holdpoint_contracts::subject;

/// How long before its second a bucket is delivered: schedules fire up to 0.6 s late.
pub(crate) const MARGIN: TimeDelta = TimeDelta::seconds(1);

/// A schedule must fire so much later than now. The server needs at least 250 ms, and timers that were just
/// decided must be committed when the bucket is read.
const GUARD: TimeDelta = TimeDelta::milliseconds(500);

/// How long the bus keeps a fired bucket. After a longer outage the sweep finds the timers.
const FIRED_TTL: &str = "60s";

/// A shard and the second in which its timers are due.
pub(crate) type Bucket = (u32, i64);

#[derive(Debug)]
pub(crate) struct Arming {
    clock: Clock,
    armed: Mutex<BTreeSet<Bucket>>,
}

/// How a bucket reaches the durable consumer.
#[derive(Debug, PartialEq, Eq)]
enum DeliveryMode {
    /// By a schedule of the server.
    ScheduledAt(DateTime<Utc>),
    /// Published at once.
    Immediate,
    /// Not yet: the test clock publishes it.
    ByTestClock,
}

impl Arming {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            armed: Mutex::default(),
        }
    }

    /// The messages that arm buckets which are not armed yet.
    pub(crate) fn messages(
        &self,
        timers: impl IntoIterator<Item = (u32, DateTime<Utc>)>,
    ) -> Vec<Outgoing> {
        let mut scheduled = BTreeMap::new();
        // A bucket brings everything that is due before its end, so the last one is enough.
        let mut direct: BTreeMap<u32, i64> = BTreeMap::new();
        let armed = self.lock();
        for (shard, due) in timers {
            let second = due.timestamp();
            match self.delivery_mode(due) {
                DeliveryMode::ScheduledAt(at) if !armed.contains(&(shard, second)) => {
                    scheduled.insert((shard, second), at);
                }
                DeliveryMode::Immediate => {
                    let last = direct.entry(shard).or_insert(second);
                    *last = second.max(*last);
                }
                DeliveryMode::ScheduledAt(_) | DeliveryMode::ByTestClock => {}
            }
        }
        drop(armed);
        let direct = direct.into_iter().filter_map(immediate);
        let scheduled = scheduled
            .into_iter()
            .filter_map(|(bucket, at)| schedule(bucket, at));
        direct.chain(scheduled).collect()
    }

    /// Marks the buckets of these timers as armed: their messages are committed or stored.
    pub(crate) fn set_armed(&self, timers: impl IntoIterator<Item = (u32, DateTime<Utc>)>) {
        let is_scheduled = |due| matches!(self.delivery_mode(due), DeliveryMode::ScheduledAt(_));
        let scheduled = timers.into_iter().filter(|(_, due)| is_scheduled(*due));
        let buckets = scheduled.map(|(shard, due)| (shard, due.timestamp()));
        self.lock().extend(buckets);
    }

    /// Drops buckets of the past.
    pub(crate) fn prune(&self) {
        let now = self.clock.now().timestamp();
        self.lock().retain(|(_, second)| *second >= now);
    }

    /// The buckets that are armed for later than an instant: the bus has at least their schedules.
    pub(crate) fn later_than(&self, instant: DateTime<Utc>) -> BTreeSet<Bucket> {
        let second = instant.timestamp();
        let armed = self.lock();
        let later = armed.iter().filter(|bucket| bucket.1 > second);
        later.copied().collect()
    }

    /// All buckets have to be armed again.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn delivery_mode(&self, due: DateTime<Utc>) -> DeliveryMode {
        let now = self.clock.now();
        if self.clock.is_test() {
            return if due <= now {
                DeliveryMode::Immediate
            } else {
                DeliveryMode::ByTestClock
            };
        }
        match DateTime::from_timestamp(due.timestamp(), 0) {
            Some(second) if second - MARGIN > now + GUARD => {
                DeliveryMode::ScheduledAt(second - MARGIN)
            }
            Some(_) | None => DeliveryMode::Immediate,
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<Bucket>> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The message that delivers a bucket at once.
pub(crate) fn immediate((shard, second): Bucket) -> Option<Outgoing> {
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

/// Our own types can always be serialized. If one cannot, a sweep repairs the loss.
fn json(subject: String, body: &impl serde::Serialize) -> Option<Outgoing> {
    Outgoing::json(subject, body)
        .inspect_err(|error| tracing::error!(%error, "message not serialized"))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subjects(messages: &[Outgoing]) -> Vec<&str> {
        messages.iter().map(|one| one.subject.as_str()).collect()
    }

    #[test]
    fn a_bucket_is_armed_once_and_a_near_bucket_is_published_at_once() {
        let arming = Arming::new(Clock::system());
        let now = arming.clock.now();
        let far = now + TimeDelta::seconds(60);
        let timers = [(0, far), (0, far), (0, now), (0, now + GUARD)];
        let messages = arming.messages(timers);
        let bucket = subject::timer_bucket(0, far.timestamp());
        assert_eq!(subjects(&messages), ["hp.timers.due.0", &bucket]);
        // The messages are not committed, so they are published again.
        assert_eq!(arming.messages(timers).len(), 2);
        arming.set_armed(timers);
        assert_eq!(subjects(&arming.messages(timers)), ["hp.timers.due.0"]);
    }

    #[test]
    fn with_the_test_clock_only_due_buckets_are_published() {
        let now = DateTime::UNIX_EPOCH;
        let arming = Arming::new(Clock::standing_at(now));
        assert_eq!(arming.messages([(0, now + TimeDelta::milliseconds(1))]), []);
        assert_eq!(subjects(&arming.messages([(0, now)])), ["hp.timers.due.0"]);
    }
}
