//! What is committed and not yet published: which outbox rows, in which order, and when the bus is
//! tried again. Their messages stay in the table; only what is left of the first row is in memory.

use std::collections::VecDeque;
use std::time::Duration;

use holdpoint_bus::{Bus, BusError, Outgoing};
use tokio::time::Instant;

use crate::Service;
use crate::activity::KernelStatus;
use crate::outbox::Kept;
use crate::writer::chain;

/// Bytes of messages that may stay behind, a row counted with [`ROW_BYTES`] at the least. Beyond it
/// nothing is committed any more until the bus has taken some: callers wait, and ask again.
const BEHIND_BYTES_MAX: usize = 64 << 20;
const ROW_BYTES: usize = 4_096;

/// Wait before publishing is tried again while the bus is away or refuses.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// Rows that wait for the bus, oldest first. Nothing newer overtakes them.
pub(super) struct Backlog {
    rows: VecDeque<Kept>,
    bytes: usize,
    /// What is left of the first row; none: it is read from the table.
    first: Option<Vec<Outgoing>>,
    wait: Duration,
    due: Instant,
    /// Rows that were published since the bus refused.
    made_good: usize,
    activity: KernelStatus,
}

impl Backlog {
    pub(super) fn new(activity: KernelStatus) -> Self {
        Self {
            rows: VecDeque::new(),
            bytes: 0,
            first: None,
            wait: RETRY_FIRST,
            due: Instant::now(),
            made_good: 0,
            activity,
        }
    }

    /// Rows that another process left; they are tried at once.
    pub(super) fn begin_with(&mut self, rows: VecDeque<Kept>) {
        self.bytes = rows.iter().map(cost).sum();
        self.rows = rows;
        self.activity.set_behind(true);
    }

    pub(super) fn has_room(&self) -> bool {
        self.bytes < BEHIND_BYTES_MAX
    }

    /// Ends when it is time to try again; never while nothing is behind.
    pub(super) async fn is_due(&self) {
        match self.rows.is_empty() {
            true => std::future::pending().await,
            false => tokio::time::sleep_until(self.due).await,
        }
    }

    /// The oldest row, and what is left of it where that is known.
    pub(super) fn first(&mut self) -> Option<(i64, Option<Vec<Outgoing>>)> {
        let row = self.rows.front()?.id;
        Some((row, self.first.take()))
    }

    /// The oldest row is published: which it was.
    pub(super) fn done(&mut self, service: &'static str) -> Option<i64> {
        let row = self.rows.pop_front()?;
        self.bytes = self.bytes.saturating_sub(cost(&row));
        self.activity.set_outbox_silent(false);
        self.wait = RETRY_FIRST;
        self.made_good += 1;
        if self.rows.is_empty() {
            let rows = std::mem::take(&mut self.made_good);
            self.activity.set_behind(false);
            tracing::info!(service, rows, "everything in the outbox is published");
        }
        Some(row.id)
    }

    /// The oldest row is still there: the bus did not take what is left of it, or it could not be read.
    pub(super) fn refused(&mut self, left: Option<Vec<Outgoing>>, why: Option<&BusError>) {
        self.activity
            .set_outbox_silent(why.is_some_and(BusError::is_silence));
        self.first = left;
        self.wait = (self.wait * 2).min(RETRY_MAX);
        self.due = Instant::now() + self.wait;
        if let Some(error) = why {
            // It was said once, when it began.
            tracing::debug!(error = %chain(error), "still not published");
        }
    }

    /// Publishes the messages of a batch, unless older ones have to go first; gives back the row that
    /// has done its work.
    pub(super) async fn publish<S: Service>(
        &mut self,
        bus: &Bus,
        row: Option<i64>,
        messages: Vec<Outgoing>,
    ) -> Option<i64> {
        let id = row?;
        let bytes = messages.iter().map(|message| message.body.len()).sum();
        let kept = Kept { id, bytes };
        if !self.rows.is_empty() {
            self.push(kept);
            return None;
        }
        if !bus.is_connected() {
            self.begin(kept, None);
            tracing::warn!(
                service = S::NAME,
                "the bus is away: what is committed waits in the outbox"
            );
            return None;
        }
        let Some(Unpublished { left, why }) = unstored(bus, messages).await else {
            return row;
        };
        tracing::warn!(service = S::NAME, error = %chain(&why), messages = left.len(), "not published: what is committed waits in the outbox, and is tried again until the bus takes it");
        self.activity.set_outbox_silent(why.is_silence());
        self.begin(kept, Some(left));
        None
    }

    fn begin(&mut self, row: Kept, left: Option<Vec<Outgoing>>) {
        self.wait = RETRY_FIRST;
        self.due = Instant::now() + self.wait;
        self.first = left;
        self.activity.set_behind(true);
        self.push(row);
    }

    fn push(&mut self, row: Kept) {
        let had_room = self.has_room();
        self.bytes += cost(&row);
        self.rows.push_back(row);
        if had_room && !self.has_room() {
            tracing::error!(
                rows = self.rows.len(),
                bytes = self.bytes,
                "the outbox is full: nothing is taken in until the bus takes some of it; give JetStream room, or bring it back"
            );
        }
    }

    /// The service ends; the rows stay.
    pub(super) fn leave(&self, service: &'static str) {
        if !self.rows.is_empty() {
            let rows = self.rows.len();
            tracing::warn!(service, rows, "left in the outbox for the next start");
        }
    }
}

const fn cost(row: &Kept) -> usize {
    if row.bytes > ROW_BYTES {
        row.bytes
    } else {
        ROW_BYTES
    }
}

/// What the bus did not take.
pub(super) struct Unpublished {
    pub(super) left: Vec<Outgoing>,
    /// Why the last of them was not.
    pub(super) why: BusError,
}

/// Publishes messages; none: all were stored.
pub(super) async fn unstored(bus: &Bus, messages: Vec<Outgoing>) -> Option<Unpublished> {
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
