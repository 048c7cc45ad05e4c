//! How busy a kernel is, and whether it is ready.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::isolation::Isolation;

/// How busy a kernel is; all clones share the counts.
#[derive(Debug, Clone, Default)]
pub struct KernelStatus {
    /// Tasks that were received and are not yet committed, published and answered.
    pub(crate) in_flight: Arc<AtomicUsize>,
    /// Tasks that were finished since the start.
    pub(crate) handled: Arc<AtomicUsize>,
    /// Whether the database did not answer the last statement.
    is_database_silent: Arc<AtomicBool>,
    /// Whether committed messages wait for the bus, because it is disconnected or refuses them.
    has_backlog: Arc<AtomicBool>,
    /// Whether the bus did not answer the last retry of the oldest outbox row.
    is_outbox_silent: Arc<AtomicBool>,
    /// Whether the bus did not store the last desired states of any kind.
    are_desired_states_refused: Arc<AtomicBool>,
    /// Whether the bus did not answer to them.
    are_desired_states_silent: Arc<AtomicBool>,
    /// Desired states that their receivers refused or could not read.
    not_accepted: Arc<AtomicUsize>,
    pub(crate) isolation: Isolation,
    /// When the database thread began its present batch.
    at_work_since: Arc<Mutex<Option<Instant>>>,
}

/// A batch that takes longer means that the database thread is stuck. Usually it takes milliseconds.
const BATCH_WITHIN: Duration = Duration::from_secs(10);

impl KernelStatus {
    /// Counts work that is not a message yet, such as the next pages of a sweep.
    pub fn begin(&self) {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
    }

    /// Ends what [`Self::begin`] counted.
    pub fn end(&self) {
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
    }

    /// Tasks on their way completed.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }

    pub(crate) fn database_answers(&self) -> bool {
        !self.is_database_silent.load(Ordering::Acquire)
    }

    pub(crate) fn set_database_answers(&self, answers: bool) {
        self.is_database_silent.store(!answers, Ordering::Release);
    }

    /// The database thread begins a batch or ends it.
    pub(crate) fn set_at_work(&self, is_at_work: bool) {
        let mut since = self
            .at_work_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *since = is_at_work.then(Instant::now);
    }

    fn is_stuck(&self, now: Instant) -> bool {
        let since = *self
            .at_work_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        since.is_some_and(|since| now.saturating_duration_since(since) > BATCH_WITHIN)
    }

    /// Why the kernel is not ready, the connection to the bus aside.
    #[must_use]
    pub fn not_ready(&self) -> Option<&'static str> {
        if !self.database_answers() {
            return Some("the database does not answer or refuses writes");
        }
        if self.is_stuck(Instant::now()) {
            return Some("the database thread is stuck");
        }
        (self.has_backlog() || self.are_desired_states_refused.load(Ordering::Acquire))
            .then_some("JetStream does not store messages; check whether its disk is full")
    }

    /// Whether JetStream is connected but does not answer to what it should store.
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

    /// A problem that an operator should know although the kernel is ready.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let desired_states = self.not_accepted.load(Ordering::Acquire);
        (desired_states > 0).then(|| {
            format!("{desired_states} desired states were not accepted by their receivers; they are kept and sent again")
        })
    }

    pub(crate) fn has_backlog(&self) -> bool {
        self.has_backlog.load(Ordering::Acquire)
    }

    /// A backlog counts as unfinished work.
    pub(crate) fn set_backlog(&self, has_backlog: bool) {
        let had_backlog = self.has_backlog.swap(has_backlog, Ordering::AcqRel);
        match (had_backlog, has_backlog) {
            (false, true) => self.begin(),
            (true, false) => self.end(),
            (true, true) | (false, false) => {}
        }
    }

    /// Tasks that were finished since the start; only rises.
    #[must_use]
    pub fn handled(&self) -> usize {
        self.handled.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mend B-12: a thread that does not return from a batch is not ready; one that does is.
    #[test]
    fn a_stuck_thread_is_noticed() {
        let status = KernelStatus::default();
        let later = || Instant::now() + BATCH_WITHIN + Duration::from_secs(1);
        assert!(!status.is_stuck(later()), "idle");
        status.set_at_work(true);
        assert!(!status.is_stuck(Instant::now()), "at work");
        assert!(status.is_stuck(later()));
        status.set_at_work(true);
        assert!(!status.is_stuck(Instant::now() + BATCH_WITHIN / 2));
        status.set_at_work(false);
        assert!(!status.is_stuck(later()), "idle again");
    }
}
