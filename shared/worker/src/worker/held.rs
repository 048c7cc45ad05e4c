//! Deliveries that this worker holds, and the progress acks that keep them its own.
//!
//! Owns the way back to the server for each held delivery. It must never ack by itself: a
//! delivery that is dropped unanswered is left to be delivered again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::jetstream::AckKind;
use holdpoint_bus::Bus;
use holdpoint_contracts::steps::HandOut;
use holdpoint_ids::RunId;

/// After this long without a word from the worker the server delivers again.
pub(super) const ACK_WAIT: Duration = Duration::from_secs(2);

/// Two beats may be lost within [`ACK_WAIT`] before a delivery is.
const BEAT: Duration = Duration::from_millis(700);

/// All deliveries that are held.
#[derive(Clone)]
pub(super) struct Held {
    bus: Bus,
    replies: Arc<Mutex<HashMap<Key, String>>>,
}

/// One hand-out of one step.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    run: RunId,
    step: String,
    dispatch: u64,
}

impl Held {
    pub(super) fn new(bus: Bus) -> Self {
        Self {
            bus,
            replies: Arc::default(),
        }
    }

    /// Holds a delivery from now on. None: this worker holds the same hand-out already and was
    /// thought lost; it goes on, and answers the newer delivery.
    pub(super) fn take(&self, hand_out: &HandOut, reply: &str) -> Option<Delivery> {
        let key = Key {
            run: hand_out.run,
            step: hand_out.step.clone(),
            dispatch: hand_out.dispatch,
        };
        let before = self.replies().insert(key.clone(), reply.to_owned());
        before.is_none().then(|| Delivery {
            key,
            held: self.clone(),
        })
    }

    /// Sends progress for all that is held, until it is aborted.
    pub(super) async fn beat(self) {
        let mut beats = tokio::time::interval(BEAT);
        beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            beats.tick().await;
            let replies: Vec<_> = self.replies().values().cloned().collect();
            for reply in replies {
                self.answer(reply, AckKind::Progress).await;
            }
        }
    }

    pub(super) async fn answer(&self, reply: String, kind: AckKind) {
        if let Err(error) = self.bus.send(reply, kind.into()).await {
            tracing::debug!(%error, "an ack was not sent; the delivery comes again");
        }
    }

    fn replies(&self) -> MutexGuard<'_, HashMap<Key, String>> {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One held delivery. Dropped without an answer it is no longer kept, and comes again.
pub(super) struct Delivery {
    key: Key,
    held: Held,
}

impl Delivery {
    /// It is done with: the server forgets it.
    pub(super) async fn ack(self) {
        self.end(AckKind::Ack).await;
    }

    /// It is given back, and delivered again after `delay`.
    pub(super) async fn give_back(self, delay: Duration) {
        self.end(AckKind::Nak(Some(delay))).await;
    }

    /// Takes it off the list first: a progress ack after the last word could undo it.
    async fn end(self, kind: AckKind) {
        let reply = self.held.replies().remove(&self.key);
        if let Some(reply) = reply {
            self.held.answer(reply, kind).await;
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.held.replies().remove(&self.key);
    }
}
