//! Sends again what was not confirmed: all of it at the start, later what stays behind.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{DesiredStateKey, Sender, Unacknowledged, page};
use crate::Service;
use crate::writer::chain;

/// Real time between two rounds; shorter in this crate's own tests.
const EVERY: Duration = if cfg!(test) {
    Duration::from_millis(100)
} else {
    Duration::from_secs(5)
};

/// Real time until a bus that stored none is tried again.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Rounds that a desired state waits at most between two sendings: a minute.
const WAIT_MAX: u32 = 12;

/// The same for a desired state that its receiver has not accepted: ten minutes.
const UNACCEPTED_WAIT_MAX: u32 = 120;

/// Desired states of a refused kind that are tried at once; the next try takes those behind them.
const TRIED_AT_ONCE: u64 = 10;

/// Rows that are read at once; fewer in this crate's own tests.
const PAGE: u64 = if cfg!(test) { 4 } else { 1_000 };

/// Rows that one round looks at; the next round goes on behind them. Bounds what a receiver that is
/// away for long finds in its stream.
const LOOK_MAX: u64 = 10_000;

/// Sends desired states again until it is told to stop.
pub(crate) async fn resend<S: Service>(
    courier: Sender<S>,
    db: DatabaseConnection,
    stop: CancellationToken,
) {
    let mut rounds = Rounds::default();
    let mut most = u64::MAX;
    loop {
        let round = rounds.round(&courier, &db, most);
        match stop.run_until_cancelled(round).await {
            None => return,
            Some(Ok(())) => most = LOOK_MAX,
            Some(Err(error)) => {
                tracing::warn!(service = S::NAME, error = %chain(&error), "unconfirmed desired states could not be read; the next round does");
            }
        }
        let next = rounds.until_next(&courier, &db);
        match stop.run_until_cancelled(next).await {
            None => return,
            Some(Ok(())) => {}
            Some(Err(error)) => {
                tracing::warn!(service = S::NAME, error = %chain(&error), "unconfirmed desired states could not be read; trying again");
                if stop
                    .run_until_cancelled(tokio::time::sleep(EVERY))
                    .await
                    .is_none()
                {
                    return;
                }
            }
        }
    }
}

/// What earlier rounds have seen.
#[derive(Debug, Default)]
struct Rounds {
    seen: HashMap<DesiredStateKey, Seen>,
    /// Kinds that the bus stores again, until all their rows were seen.
    stored_again: HashSet<String>,
    /// Where the last try of a refused kind ended.
    tried: HashMap<String, DesiredStateKey>,
    /// Where the last round had to stop; none: it saw all.
    behind: Option<DesiredStateKey>,
    /// Number of times that the whole table was seen.
    turn: u32,
}

#[derive(Debug)]
struct Seen {
    rev: i64,
    turn: u32,
    /// Rounds between the last sending and the next.
    wait: u32,
    /// Rounds until the next sending.
    left: u32,
}

impl Rounds {
    /// Looks at `most` rows and sends those that are due.
    async fn round<S: Service>(
        &mut self,
        courier: &Sender<S>,
        db: &DatabaseConnection,
        most: u64,
    ) -> Result<(), StoreError> {
        let mut looked = 0;
        while looked < most && courier.bus.is_connected() {
            let rows = page(db, self.behind.as_ref(), PAGE).await?;
            looked += PAGE;
            let last = rows.last().map(|row| row.sent.key.clone());
            let is_whole = rows.len() as u64 == PAGE;
            let refused = courier.refused();
            let due = rows.into_iter().filter(|row| {
                let is_refused = refused.iter().any(|kind| *kind == row.sent.key.kind);
                let most_wait = if courier.is_unaccepted(&row.sent) {
                    UNACCEPTED_WAIT_MAX
                } else {
                    WAIT_MAX
                };
                self.is_due(row, (most == u64::MAX, is_refused), most_wait)
            });
            let due = due.collect();
            courier.try_to_send(due).await;
            if is_whole {
                self.behind = last;
                continue;
            }
            self.behind = None;
            self.stored_again.clear();
            let turn = self.turn;
            self.seen.retain(|_, seen| seen.turn == turn);
            courier.retain_unaccepted(|key| self.seen.contains_key(key));
            self.turn = turn.wrapping_add(1);
            break;
        }
        Ok(())
    }

    /// Waits until it is time for the next round: at once, when the bus stores a kind again.
    async fn until_next<S: Service>(
        &mut self,
        courier: &Sender<S>,
        db: &DatabaseConnection,
    ) -> Result<(), StoreError> {
        let next = Instant::now() + EVERY;
        while Instant::now() < next {
            if courier.refused().is_empty() {
                drop(tokio::time::timeout_at(next, courier.until_refused()).await);
            } else {
                tokio::time::sleep(TRY_AGAIN_AFTER).await;
                if self.try_refused(courier, db).await? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Sends a few desired states of each kind that the bus did not store, to find out whether it does again: what
    /// waited meanwhile is due then. Each try takes the next few, so that desired states that the bus will never
    /// store hold up no other one. Tells whether the bus stores the kind.
    async fn try_refused<S: Service>(
        &mut self,
        courier: &Sender<S>,
        db: &DatabaseConnection,
    ) -> Result<bool, StoreError> {
        let mut any = false;
        for kind in courier.refused() {
            let begin = DesiredStateKey {
                kind: Cow::Owned(kind.clone()),
                workspace: String::new(),
                id: String::new(),
            };
            let behind = self.tried.remove(&kind);
            let is_begin = behind.is_none();
            let behind = behind.unwrap_or(begin);
            let mut few = page(db, Some(&behind), TRIED_AT_ONCE).await?;
            few.retain(|row| row.sent.key.kind == kind);
            if let Some(last) = few.last() {
                self.tried.insert(kind.clone(), last.sent.key.clone());
            } else if is_begin {
                courier.note(&kind, None);
            }
            courier.try_each(few).await;
            if !courier.is_refused(&kind) {
                self.tried.remove(&kind);
                self.stored_again.insert(kind);
                self.behind = None;
                any = true;
            }
        }
        Ok(any)
    }

    /// Whether a row is sent in this round: at the start each, later what was there before, or could not be
    /// sent.
    fn is_due(
        &mut self,
        row: &Unacknowledged,
        (is_start, is_refused): (bool, bool),
        wait_max: u32,
    ) -> bool {
        let turn = self.turn;
        let seen = self.seen.get_mut(&row.sent.key);
        let Some(seen) = seen.filter(|seen| seen.rev == row.sent.rev) else {
            if is_refused {
                return false;
            }
            let fresh = Seen {
                rev: row.sent.rev,
                turn,
                wait: 1,
                left: 1,
            };
            self.seen.insert(row.sent.key.clone(), fresh);
            return is_start || self.stored_again.contains(&*row.sent.key.kind);
        };
        seen.turn = turn;
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
