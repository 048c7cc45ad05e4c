//! Waiters of a process that are woken by topic. One subscription then serves all of them.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// Waiters by topic. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Waiters<T>(Arc<Mutex<HashMap<T, watch::Sender<()>>>>);

/// The changes of one topic since the subscription.
#[derive(Debug)]
pub struct Changes<T: Eq + Hash> {
    topic: T,
    waiters: Waiters<T>,
    /// Absent only while it is dropped.
    receiver: Option<watch::Receiver<()>>,
}

impl<T> Default for Waiters<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Waiters<T> {
    fn lock(&self) -> MutexGuard<'_, HashMap<T, watch::Sender<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }
}

impl<T: Clone + Eq + Hash> Waiters<T> {
    /// Subscribe before reading: then no later change is missed.
    #[must_use]
    pub fn subscribe(&self, topic: T) -> Changes<T> {
        let mut waiters = self.lock();
        let sender = waiters.entry(topic.clone());
        let sender = sender.or_insert_with(|| watch::channel(()).0);
        Changes {
            receiver: Some(sender.subscribe()),
            topic,
            waiters: self.clone(),
        }
    }
}

impl<T: Eq + Hash> Waiters<T> {
    /// Wakes the waiters of these topics.
    pub fn wake(&self, topics: impl IntoIterator<Item = T>) {
        let waiters = self.lock();
        for topic in topics {
            if let Some(sender) = waiters.get(&topic) {
                sender.send_replace(());
            }
        }
    }

    /// Wakes the waiters of all topics that match.
    pub fn wake_matching(&self, matches: impl Fn(&T) -> bool) {
        for (topic, sender) in &*self.lock() {
            if matches(topic) {
                sender.send_replace(());
            }
        }
    }
}

impl<T: Eq + Hash> Changes<T> {
    /// Ends at the next change, or at once if there was one since the last call.
    pub async fn next(&mut self) {
        if let Some(receiver) = &mut self.receiver
            && receiver.changed().await.is_ok()
        {
            return;
        }
        // The sender lives as long as its receivers.
        std::future::pending::<()>().await;
    }
}

impl<T: Eq + Hash> Drop for Changes<T> {
    fn drop(&mut self) {
        let mut waiters = self.waiters.lock();
        // Under the lock: of two that end together, the second one finds no receiver.
        drop(self.receiver.take());
        let is_unused = |sender: &watch::Sender<()>| sender.receiver_count() == 0;
        if waiters.get(&self.topic).is_some_and(is_unused) {
            waiters.remove(&self.topic);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    /// Swift 2: waiters are woken by topic, once for each change, and leave nothing behind.
    #[test]
    fn the_waiters_of_a_topic_are_woken() {
        let waiters = Waiters::default();
        let (mut first, mut second) = (waiters.subscribe(1), waiters.subscribe(1));
        let mut other = waiters.subscribe(2);
        waiters.wake([1, 3]);
        waiters.wake([1]);
        for changes in [&mut first, &mut second] {
            assert!(changes.next().now_or_never().is_some());
            assert!(changes.next().now_or_never().is_none(), "woken once");
        }
        assert!(other.next().now_or_never().is_none());
        waiters.wake_matching(|topic| *topic > 1);
        assert!(other.next().now_or_never().is_some());
        drop(first);
        waiters.wake([1]);
        assert!(second.next().now_or_never().is_some());
        drop((second, other));
        assert!(waiters.is_empty());
    }

    /// Two waiters of one topic that end at the same time leave nothing behind.
    #[test]
    fn waiters_that_end_together_leave_nothing_behind() {
        let waiters = Waiters::default();
        for _ in 0..500 {
            let all = [(); 4].map(|()| waiters.subscribe("topic"));
            std::thread::scope(|scope| {
                for waiter in all {
                    scope.spawn(move || drop(waiter));
                }
            });
            assert!(waiters.is_empty());
        }
    }
}
