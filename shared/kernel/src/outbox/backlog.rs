//! Outbox rows that are committed and not published: their order, and when the bus is tried again. Their
//! messages stay in the table; only those of the first row are in memory.

use std::collections::VecDeque;
use std::time::Duration;

use holdpoint_bus::{Bus, BusError, Outgoing};
use tokio::time::Instant;

use super::rows::OutboxEntry;
use crate::error_chain::error_chain;
use crate::service::Service;
use crate::status::KernelStatus;

/// Bytes of messages in the backlog, where each row counts at least [`ROW_BYTES`]. Beyond it nothing is
/// committed until the bus has stored some: callers wait and ask again.
const BACKLOG_BYTES_MAX: usize = 64 << 20;
const ROW_BYTES: usize = 4_096;

/// Wait between retries while the bus is disconnected or refuses.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// Unpublished rows, oldest first. No newer row overtakes them.
pub(super) struct Backlog {
    rows: VecDeque<OutboxEntry>,
    bytes: usize,
    /// The messages that are left of the first row. `None`: they are read from the table.
    first: Option<Vec<Outgoing>>,
    wait: Duration,
    due: Instant,
    /// Rows that were published since the backlog began.
    published: usize,
    status: KernelStatus,
}

impl Backlog {
    pub(super) fn new(status: KernelStatus) -> Self {
        Self {
            rows: VecDeque::new(),
            bytes: 0,
            first: None,
            wait: RETRY_FIRST,
            due: Instant::now(),
            published: 0,
            status,
        }
    }

    /// Begins with the rows of another process, which are due at once.
    pub(super) fn begin_with(&mut self, rows: VecDeque<OutboxEntry>) {
        self.bytes = rows.iter().map(cost).sum();
        self.rows = rows;
        self.status.set_backlog(true);
    }

    pub(super) fn has_room(&self) -> bool {
        self.bytes < BACKLOG_BYTES_MAX
    }

    /// Ends when the first row is due; never while the backlog is empty.
    pub(super) async fn wait_until_due(&self) {
        if self.rows.is_empty() {
            return std::future::pending().await;
        }
        tokio::time::sleep_until(self.due).await;
    }

    /// The oldest row, and its messages if they are in memory.
    pub(super) fn first(&mut self) -> Option<(i64, Option<Vec<Outgoing>>)> {
        let row = self.rows.front()?.id;
        Some((row, self.first.take()))
    }

    pub(super) fn remove_first(&mut self, service: &'static str) -> Option<i64> {
        let row = self.rows.pop_front()?;
        self.bytes = self.bytes.saturating_sub(cost(&row));
        self.status.set_outbox_silent(false);
        self.wait = RETRY_FIRST;
        self.published += 1;
        if self.rows.is_empty() {
            let rows = std::mem::take(&mut self.published);
            self.status.set_backlog(false);
            tracing::info!(service, rows, "outbox backlog published");
        }
        Some(row.id)
    }

    /// The oldest row stays: the bus refused the messages that are left, or the row could not be read.
    pub(super) fn set_refused(&mut self, left: Option<Vec<Outgoing>>, why: Option<&BusError>) {
        self.status
            .set_outbox_silent(why.is_some_and(BusError::is_silence));
        self.first = left;
        self.wait = (self.wait * 2).min(RETRY_MAX);
        self.due = Instant::now() + self.wait;
        if let Some(error) = why {
            // The beginning of the backlog was logged as a warning.
            tracing::debug!(error = %error_chain(error), "outbox backlog still not published");
        }
    }

    /// Publishes the messages of a batch, or appends its row to the backlog. Returns the row that can be
    /// deleted.
    pub(super) async fn publish<S: Service>(
        &mut self,
        bus: &Bus,
        row: Option<i64>,
        messages: Vec<Outgoing>,
    ) -> Option<i64> {
        let id = row?;
        let bytes = messages.iter().map(|message| message.body.len()).sum();
        let entry = OutboxEntry { id, bytes };
        if !self.rows.is_empty() {
            self.push(entry);
            return None;
        }
        if !bus.is_connected() {
            self.begin(entry, None);
            tracing::warn!(
                service = S::NAME,
                "bus disconnected; committed messages wait in the outbox"
            );
            return None;
        }
        let Some(Unpublished { left, why }) = try_publish(bus, messages).await else {
            return row;
        };
        tracing::warn!(service = S::NAME, error = %error_chain(&why), messages = left.len(), "messages not stored by the bus; they wait in the outbox and are tried again");
        self.status.set_outbox_silent(why.is_silence());
        self.begin(entry, Some(left));
        None
    }

    fn begin(&mut self, row: OutboxEntry, left: Option<Vec<Outgoing>>) {
        self.wait = RETRY_FIRST;
        self.due = Instant::now() + self.wait;
        self.first = left;
        self.status.set_backlog(true);
        self.push(row);
    }

    fn push(&mut self, row: OutboxEntry) {
        let had_room = self.has_room();
        self.bytes += cost(&row);
        self.rows.push_back(row);
        if had_room && !self.has_room() {
            tracing::error!(
                rows = self.rows.len(),
                bytes = self.bytes,
                "outbox full; nothing is committed until the bus stores messages: reconnect it or give JetStream disk space"
            );
        }
    }

    pub(super) fn log_remaining(&self, service: &'static str) {
        if !self.rows.is_empty() {
            let rows = self.rows.len();
            tracing::warn!(
                service,
                rows,
                "service stops; outbox rows are left to the next start"
            );
        }
    }
}

const fn cost(row: &OutboxEntry) -> usize {
    if row.bytes > ROW_BYTES {
        row.bytes
    } else {
        ROW_BYTES
    }
}

/// Messages that the bus did not store.
pub(super) struct Unpublished {
    pub(super) left: Vec<Outgoing>,
    /// The error of the last one.
    pub(super) why: BusError,
}

/// Publishes messages. `None`: all were stored.
pub(super) async fn try_publish(bus: &Bus, messages: Vec<Outgoing>) -> Option<Unpublished> {
    let results = bus.publish_each(&messages).await;
    let mut why = None;
    let mut left = Vec::new();
    for (message, result) in messages.into_iter().zip(results) {
        if let Err(error) = result {
            left.push(message);
            why = Some(error);
        }
    }
    why.map(|why| Unpublished { left, why })
}
