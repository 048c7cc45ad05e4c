//! Sends unacknowledged desired states again: all of them at the start, and later in rounds with back-off.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::rows::{DesiredStateKey, Unacknowledged, load_page};
use super::sender::Sender;
use crate::error_chain::error_chain;
use crate::service::Service;

/// Real time between two rounds; shorter in this crate's own tests.
const EVERY: Duration = if cfg!(test) {
    Duration::from_millis(100)
} else {
    Duration::from_secs(5)
};

/// Real time until a refused kind is tried again.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Rounds between two sendings of a desired state at most: a minute.
const WAIT_MAX: u32 = 12;

/// The same for a desired state that its receiver did not accept: ten minutes.
const UNACCEPTED_WAIT_MAX: u32 = 120;

/// Desired states of a refused kind that one retry sends; the next retry takes the ones after them.
const RETRIED_AT_ONCE: u64 = 10;

/// Rows of one query; fewer in this crate's own tests.
const PAGE: u64 = if cfg!(test) { 4 } else { 1_000 };

/// Rows that one round reads; the next round continues after them. This bounds the stream of a receiver that
/// is away for long.
const ROUND_ROWS_MAX: u64 = 10_000;

/// Sends desired states again until the service stops.
pub(crate) async fn resend<S: Service>(
    sender: Arc<Sender<S>>,
    db: DatabaseConnection,
    stop: CancellationToken,
) {
    let mut rounds = Rounds::default();
    let mut rows_max = u64::MAX;
    loop {
        let round = async {
            rounds.send_round(&sender, &db, rows_max).await?;
            rows_max = ROUND_ROWS_MAX;
            rounds.wait_for_next(&sender, &db).await
        };
        let round = async {
            if let Err(error) = round.await {
                tracing::warn!(service = S::NAME, error = %error_chain(&error), "desired states not read; trying again");
                tokio::time::sleep(EVERY).await;
            }
        };
        if stop.run_until_cancelled(round).await.is_none() {
            return;
        }
    }
}

#[derive(Debug, Default)]
struct Rounds {
    seen: HashMap<DesiredStateKey, Seen>,
    /// Kinds that the bus stores again, until a round has read all rows.
    stored_again: HashSet<String>,
    /// The last desired state of a refused kind that was retried.
    retried: HashMap<String, DesiredStateKey>,
    /// Where the last round stopped at its limit. `None`: it read all rows.
    resume_after: Option<DesiredStateKey>,
    /// Number of times that the whole table was read.
    cycle: u32,
}

#[derive(Debug)]
struct Seen {
    rev: i64,
    cycle: u32,
    /// Rounds between the last sending and the next.
    wait: u32,
    /// Rounds until the next sending.
    left: u32,
}

impl Rounds {
    /// Reads `rows_max` rows and sends those that are due.
    async fn send_round<S: Service>(
        &mut self,
        sender: &Sender<S>,
        db: &DatabaseConnection,
        rows_max: u64,
    ) -> Result<(), StoreError> {
        let mut read = 0;
        while read < rows_max && sender.bus.is_connected() {
            let rows = load_page(db, self.resume_after.as_ref(), PAGE).await?;
            read += PAGE;
            let last = rows.last().map(|row| row.sent.key.clone());
            let is_full = rows.len() as u64 == PAGE;
            let refused = sender.refused_kinds();
            let due = rows.into_iter().filter(|row| {
                let is_refused = refused.iter().any(|kind| *kind == row.sent.key.kind);
                let wait_max = if sender.is_unaccepted(&row.sent) {
                    UNACCEPTED_WAIT_MAX
                } else {
                    WAIT_MAX
                };
                self.is_due(row, (rows_max == u64::MAX, is_refused), wait_max)
            });
            let due = due.collect();
            sender.try_to_send(due).await;
            if is_full {
                self.resume_after = last;
                continue;
            }
            self.resume_after = None;
            self.stored_again.clear();
            let cycle = self.cycle;
            self.seen.retain(|_, seen| seen.cycle == cycle);
            sender.update_unaccepted(|unaccepted| {
                unaccepted.retain(|key| self.seen.contains_key(key));
            });
            self.cycle = cycle.wrapping_add(1);
            break;
        }
        Ok(())
    }

    /// Waits for the next round. It begins early if the bus stores a refused kind again.
    async fn wait_for_next<S: Service>(
        &mut self,
        sender: &Sender<S>,
        db: &DatabaseConnection,
    ) -> Result<(), StoreError> {
        let next = Instant::now() + EVERY;
        while Instant::now() < next {
            if sender.refused_kinds().is_empty() {
                drop(tokio::time::timeout_at(next, sender.wait_for_refused_kind()).await);
            } else {
                tokio::time::sleep(RETRY_AFTER).await;
                if self.retry_refused_kinds(sender, db).await? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Sends a few desired states of each refused kind. Returns whether the bus stores any of these kinds
    /// again; all desired states of that kind are then due. Each retry takes the next few, so that desired
    /// states that the bus will never store do not block the others.
    async fn retry_refused_kinds<S: Service>(
        &mut self,
        sender: &Sender<S>,
        db: &DatabaseConnection,
    ) -> Result<bool, StoreError> {
        let mut any_stored = false;
        for kind in sender.refused_kinds() {
            let begin = DesiredStateKey {
                kind: Cow::Owned(kind.clone()),
                workspace: String::new(),
                id: String::new(),
            };
            let after = self.retried.remove(&kind);
            let is_begin = after.is_none();
            let after = after.unwrap_or(begin);
            let mut rows = load_page(db, Some(&after), RETRIED_AT_ONCE).await?;
            rows.retain(|row| row.sent.key.kind == kind);
            if let Some(last) = rows.last() {
                self.retried.insert(kind.clone(), last.sent.key.clone());
            } else if is_begin {
                sender.record_publish(&kind, None);
            }
            sender.try_each(rows).await;
            if !sender.is_kind_refused(&kind) {
                self.retried.remove(&kind);
                self.stored_again.insert(kind);
                self.resume_after = None;
                any_stored = true;
            }
        }
        Ok(any_stored)
    }

    /// Whether a row is sent in this round. At the start every row is; later only rows that an earlier round
    /// has seen or that the bus has refused.
    fn is_due(
        &mut self,
        row: &Unacknowledged,
        (is_start, is_refused): (bool, bool),
        wait_max: u32,
    ) -> bool {
        let cycle = self.cycle;
        let seen = self.seen.get_mut(&row.sent.key);
        let Some(seen) = seen.filter(|seen| seen.rev == row.sent.rev) else {
            if is_refused {
                return false;
            }
            let fresh = Seen {
                rev: row.sent.rev,
                cycle,
                wait: 1,
                left: 1,
            };
            self.seen.insert(row.sent.key.clone(), fresh);
            return is_start || self.stored_again.contains(&*row.sent.key.kind);
        };
        seen.cycle = cycle;
        if is_refused {
            return false;
        }
        seen.left = seen.left.saturating_sub(1);
        if seen.left > 0 {
            return false;
        }
        seen.wait = (seen.wait * 2).min(wait_max);
        seen.left = seen.wait;
        true
    }
}
