//! How busy a kernel is, and whether it can do work.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::suspects::Isolation;

/// How busy a kernel is; all clones share the counts.
#[derive(Debug, Clone, Default)]
pub struct KernelStatus {
    /// Tasks that were taken in and are not yet committed, published and answered.
    pub(crate) in_flight: Arc<AtomicUsize>,
    /// Tasks that are through, since the start.
    pub(crate) handled: Arc<AtomicUsize>,
    /// Whether the database did not answer the last time it was asked.
    pub(crate) is_database_away: Arc<AtomicBool>,
    /// Whether committed messages wait for the bus, because it is away or refuses them.
    is_behind: Arc<AtomicBool>,
    /// Whether the bus said nothing to the oldest message of the outbox when it was tried last.
    is_outbox_silent: Arc<AtomicBool>,
    /// Whether the bus did not store the last desired states of some kind.
    are_desired_states_refused: Arc<AtomicBool>,
    /// Whether it said nothing to them.
    are_desired_states_silent: Arc<AtomicBool>,
    /// Desired states that their receivers refused or could not read.
    not_accepted: Arc<AtomicUsize>,
    /// What intake has to know of an unclean exit.
    pub(crate) isolation: Isolation,
    /// Since when the database thread has one batch in its hands.
    at_work_since: Arc<Mutex<Option<Instant>>>,
}

/// How long the database thread may have one batch in its hands and be ready: it takes milliseconds.
const BATCH_WITHIN: Duration = Duration::from_secs(10);

impl KernelStatus {
    /// Counts something in that no message stands for: pages of a sweep that are known to come.
    pub fn begin(&self) {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
    }

    /// The end of what was begun.
    pub fn end(&self) {
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
    }

    /// Tasks on their way through.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }

    pub(crate) fn database_answers(&self) -> bool {
        !self.is_database_away.load(Ordering::Acquire)
    }

    pub(crate) fn set_database_answers(&self, answers: bool) {
        self.is_database_away.store(!answers, Ordering::Release);
    }

    /// The database thread takes a batch in hand, or has none any more.
    pub(crate) fn set_at_work(&self, is_at_work: bool) {
        let mut since = self
            .at_work_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *since = is_at_work.then(Instant::now);
    }

    /// Whether the database thread had one batch in its hands for too long at this moment.
    fn stands_still(&self, now: Instant) -> bool {
        let since = *self
            .at_work_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        since.is_some_and(|since| now.saturating_duration_since(since) > BATCH_WITHIN)
    }

    /// What a kernel lacks to do work, the connection to the bus aside: its database has not answered
    /// last time, its database thread stands still, or JetStream does not take what is to be published.
    #[must_use]
    pub fn not_ready(&self) -> Option<&'static str> {
        if !self.database_answers() {
            return Some("the database does not answer, or takes nothing");
        }
        if self.stands_still(Instant::now()) {
            return Some("the database thread stands still");
        }
        (self.is_behind() || self.are_desired_states_refused.load(Ordering::Acquire))
            .then_some("JetStream does not take what is to be published; is its disk full?")
    }

    /// Whether JetStream, though it is there, says nothing to what it is to store.
    #[must_use]
    pub fn is_bus_silent(&self) -> bool {
        self.is_outbox_silent.load(Ordering::Acquire)
            || self.are_desired_states_silent.load(Ordering::Acquire)
    }

    pub(crate) fn set_outbox_silent(&self, is_silent: bool) {
        self.is_outbox_silent.store(is_silent, Ordering::Release);
    }

    pub(crate) fn set_desired_states_refused(&self, are_refused: bool, by_silence: bool) {
        self.are_desired_states_refused
            .store(are_refused, Ordering::Release);
        self.are_desired_states_silent
            .store(by_silence, Ordering::Release);
    }

    pub(crate) fn set_not_accepted(&self, desired_states: usize) {
        self.not_accepted.store(desired_states, Ordering::Release);
    }

    /// What an operator should know although the kernel does its work: desired states that their
    /// receivers refused or could not read.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let desired_states = self.not_accepted.load(Ordering::Acquire);
        (desired_states > 0).then(|| {
            format!("{desired_states} desired states were not accepted by their receivers; they are kept and sent again")
        })
    }

    /// Whether something that was committed waits for the bus.
    pub(crate) fn is_behind(&self) -> bool {
        self.is_behind.load(Ordering::Acquire)
    }

    /// While something is behind the kernel is not at rest.
    pub(crate) fn set_behind(&self, is_behind: bool) {
        let was_behind = self.is_behind.swap(is_behind, Ordering::AcqRel);
        match (was_behind, is_behind) {
            (false, true) => self.begin(),
            (true, false) => self.end(),
            (true, true) | (false, false) => {}
        }
    }

    /// Tasks that are through, since the start; only rises.
    #[must_use]
    pub fn handled(&self) -> usize {
        self.handled.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mend B-12: a thread that does not come back from a batch is not ready; one that does is.
    #[test]
    fn a_thread_that_stands_still_is_noticed() {
        let activity = KernelStatus::default();
        let later = || Instant::now() + BATCH_WITHIN + Duration::from_secs(1);
        assert!(!activity.stands_still(later()), "idle");
        activity.set_at_work(true);
        assert!(!activity.stands_still(Instant::now()), "at work");
        assert!(activity.stands_still(later()));
        activity.set_at_work(true);
        assert!(!activity.stands_still(Instant::now() + BATCH_WITHIN / 2));
        activity.set_at_work(false);
        assert!(!activity.stands_still(later()), "idle again");
    }
}
