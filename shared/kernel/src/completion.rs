//! Rows that have done their work. Publisher and sender report them; the writer deletes them with its
//! next commit, so that they cost no transaction of their own.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::desired_states::rows::Sent;

#[derive(Debug, Default)]
pub(crate) struct Completed {
    /// Outbox rows whose messages are published.
    pub(crate) outbox: Vec<i64>,
    /// Desired states that their receivers have acknowledged.
    pub(crate) desired_states: Vec<Sent>,
}

impl Completed {
    fn is_empty(&self) -> bool {
        self.outbox.is_empty() && self.desired_states.is_empty()
    }
}

/// Takes completed rows to the writer. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct CompletionQueue(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    completed: Mutex<Completed>,
    has_completed: Notify,
    /// Batches that the publisher has not finished.
    unfinished: AtomicUsize,
    is_idle: Notify,
    /// Outbox rows that wait to be published or deleted.
    rows_in_hand: Mutex<BTreeSet<i64>>,
}

impl CompletionQueue {
    /// The publisher gets a batch, whose messages are in this outbox row.
    pub(crate) fn begin_batch(&self, row: Option<i64>) {
        self.lock_rows().extend(row);
        self.0.unfinished.fetch_add(1, Ordering::AcqRel);
    }

    /// The publisher has finished a batch; `row` can be deleted.
    pub(crate) fn end_batch(&self, row: Option<i64>) {
        if let Some(row) = row {
            self.row_published(row);
        }
        if self.0.unfinished.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.is_idle.notify_one();
        }
    }

    pub(crate) fn row_published(&self, row: i64) {
        self.lock().outbox.push(row);
        self.0.has_completed.notify_one();
    }

    pub(crate) fn acknowledged(&self, desired_states: Vec<Sent>) {
        self.return_rows(Completed {
            outbox: Vec::new(),
            desired_states,
        });
    }

    /// Rows that could not be deleted; the next commit tries again.
    pub(crate) fn return_rows(&self, rows: Completed) {
        if rows.is_empty() {
            return;
        }
        let mut completed = self.lock();
        completed.outbox.extend(rows.outbox);
        completed.desired_states.extend(rows.desired_states);
        self.0.has_completed.notify_one();
    }

    pub(crate) fn drain(&self) -> Completed {
        std::mem::take(&mut *self.lock())
    }

    pub(crate) fn rows_deleted(&self, completed: &Completed) {
        let mut rows = self.lock_rows();
        for row in &completed.outbox {
            rows.remove(row);
        }
    }

    /// Outbox rows that this kernel knows.
    pub(crate) fn rows_in_hand(&self) -> Vec<i64> {
        self.lock_rows().iter().copied().collect()
    }

    pub(crate) async fn wait_for_rows(&self) {
        while self.lock().is_empty() {
            self.0.has_completed.notified().await;
        }
    }

    pub(crate) async fn wait_until_idle(&self) {
        while self.0.unfinished.load(Ordering::Acquire) > 0 {
            self.0.is_idle.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Completed> {
        self.0
            .completed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_rows(&self) -> MutexGuard<'_, BTreeSet<i64>> {
        self.0
            .rows_in_hand
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
