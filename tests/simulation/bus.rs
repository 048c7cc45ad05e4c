//! A bus in memory that fails as the real one does.
//!
//! Its rules are those of work-queue streams on a real server; `conformance.rs` asserts them against both. A
//! delivery that is not acked in time is redelivered with a higher count. An ack of any delivery removes the
//! message, even a late one. A crash undoes acks, lowers counts and makes copies. Where a history allows it, the
//! last messages or all of them are lost.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::subject;

use crate::chance::Chance;

/// The newest acked messages, which a crash may restore.
const REMEMBERED: usize = 20;

/// A message as it is stored.
#[derive(Debug, Clone)]
struct Stored {
    queue: String,
    subject: String,
    body: String,
    reply: Option<String>,
    count: u64,
    stored_at: DateTime<Utc>,
    out_until: Option<DateTime<Utc>>,
}

/// One delivery of a message.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    pub(crate) seq: u64,
    pub(crate) subject: String,
    pub(crate) body: String,
    pub(crate) reply: Option<String>,
    /// How often the server says that it was delivered.
    pub(crate) count: u64,
    pub(crate) stored_at: DateTime<Utc>,
}

/// Work queues, each with one durable consumer.
#[derive(Debug, Default)]
pub(crate) struct SimBus {
    stored: BTreeMap<u64, Stored>,
    last: u64,
    acked: Vec<(u64, Stored)>,
}

/// The queue that stores a subject.
pub(crate) fn queue_of(subject: &str) -> String {
    let tokens: Vec<_> = subject.split('.').collect();
    match tokens.as_slice() {
        ["hp", _, "steps", ..] => subject::STEPS.to_owned(),
        ["hp", _, "cmd", service, ..] => subject::commands_stream(service),
        ["hp", "timers", ..] => subject::TIMERS.to_owned(),
        _ => panic!("no stream stores {subject}"),
    }
}

impl SimBus {
    pub(crate) fn publish(
        &mut self,
        subject: &str,
        body: String,
        reply: Option<String>,
        now: DateTime<Utc>,
    ) {
        self.last += 1;
        let stored = Stored {
            queue: queue_of(subject),
            subject: subject.to_owned(),
            body,
            reply,
            count: 0,
            stored_at: now,
            out_until: None,
        };
        self.stored.insert(self.last, stored);
    }

    /// The next message of a queue that is not delivered to a consumer. With `chance` it may be another than the oldest.
    pub(crate) fn pull(
        &mut self,
        queue: &str,
        now: DateTime<Utc>,
        ack_wait: TimeDelta,
        chance: Option<&mut Chance>,
    ) -> Option<Delivery> {
        let is_free = |one: &Stored| one.out_until.is_none_or(|until| until <= now);
        let free: Vec<_> = self
            .stored
            .iter()
            .filter(|(_, one)| one.queue == queue && is_free(one))
            .map(|(seq, _)| *seq)
            .collect();
        let place = chance.map_or(0, |chance| chance.place(free.len()));
        let seq = *free.get(place)?;
        let stored = self.stored.get_mut(&seq)?;
        stored.count += 1;
        stored.out_until = Some(now + ack_wait);
        Some(Delivery {
            seq,
            subject: stored.subject.clone(),
            body: stored.body.clone(),
            reply: stored.reply.clone(),
            count: stored.count,
            stored_at: stored.stored_at,
        })
    }

    /// Acknowledges any delivery, however late.
    pub(crate) fn ack(&mut self, seq: u64) {
        if let Some(stored) = self.stored.remove(&seq) {
            self.acked.push((seq, stored));
            if self.acked.len() > REMEMBERED {
                self.acked.remove(0);
            }
        }
    }

    /// Gives a delivery back for redelivery at once.
    pub(crate) fn nak(&mut self, seq: u64) {
        if let Some(stored) = self.stored.get_mut(&seq) {
            stored.out_until = None;
        }
    }

    /// Extends the ack wait of a delivery.
    pub(crate) fn progress(&mut self, seq: u64, now: DateTime<Utc>, ack_wait: TimeDelta) {
        if let Some(stored) = self.stored.get_mut(&seq) {
            stored.out_until = Some(now + ack_wait);
        }
    }

    /// Messages of a queue, delivered or not.
    pub(crate) fn stored_in(&self, queue: &str) -> usize {
        self.stored
            .values()
            .filter(|one| one.queue == queue)
            .count()
    }

    pub(crate) fn count(&self) -> usize {
        self.stored.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.stored.is_empty()
    }

    /// The server was killed: recent acks are undone and delivery counts go back.
    pub(crate) fn crash(&mut self, chance: &mut Chance) {
        for (seq, mut stored) in std::mem::take(&mut self.acked) {
            if chance.one_in(2) {
                stored.out_until = None;
                stored.count = chance.below(stored.count + 1);
                self.stored.insert(seq, stored);
            }
        }
        for stored in self.stored.values_mut() {
            if chance.one_in(2) {
                stored.out_until = None;
                stored.count = chance.below(stored.count + 1);
            }
        }
    }

    /// The power failed: the last messages are lost.
    pub(crate) fn lose_tail(&mut self, count: usize) {
        for _ in 0..count {
            self.stored.pop_last();
        }
    }

    /// The storage is lost.
    pub(crate) fn wipe(&mut self) {
        self.stored.clear();
        self.acked.clear();
    }
}
