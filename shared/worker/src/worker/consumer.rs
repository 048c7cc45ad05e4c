//! Receives deliveries of one lane of a queue, and never more than can start.
//!
//! Owns the pulls. A buffered message is neither executed nor kept alive. Each pull therefore requests only as
//! many messages as there are free slots, and is closed again.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::jetstream::consumer::Consumer;
use async_nats::jetstream::consumer::pull::{self, MessagesErrorKind};
use async_nats::jetstream::{AckKind, Message};
use futures_util::StreamExt;
use holdpoint_bus::{Bus, BusError, PULL_EXPIRES, PULL_HEARTBEAT};
use holdpoint_contracts::subject::{self, Lane};
use holdpoint_ids::ToolName;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::job::{self, JobContext};
use super::slots::{Slots, TakenSlots};
use crate::tool::Tool;

/// Messages of one fetch at most.
const FETCH_MAX: usize = 64;

/// The server answers a fetch at once. After this time the fetch was lost.
const FETCH_WAIT: Duration = Duration::from_secs(1);

/// How long a delivery waits for a slot before it is given back, because another worker may have one. Shorter
/// than the ack wait.
const SLOT_WAIT: Duration = Duration::from_secs(1);

/// Wait before a missing queue is looked up again: at first, and at most.
const LOOK_FIRST: Duration = Duration::from_millis(10);
const LOOK_MAX: Duration = Duration::from_secs(1);

/// Wait before a broken pull is opened again.
const REOPEN_AFTER: Duration = Duration::from_secs(1);

pub(super) struct Queue {
    pub(super) name: ToolName,
    pub(super) lane: Lane,
    pub(super) tool: Arc<dyn Tool>,
    pub(super) bus: Bus,
    pub(super) slots: Slots,
    /// Deliveries of all queues that wait for a slot.
    pub(super) waiting: Arc<AtomicU64>,
    pub(super) context: Arc<JobContext>,
    pub(super) jobs: TaskTracker,
    pub(super) given_up: CancellationToken,
}

impl Queue {
    /// Receives steps until `stop`. A broken pull is opened again.
    pub(super) async fn take_until(self, stop: CancellationToken) {
        while let Some(Err(error)) = stop.run_until_cancelled(self.take()).await {
            tracing::warn!(queue = %self.name, %error, "pull broken; the queue is opened again");
            stop.run_until_cancelled(tokio::time::sleep(REOPEN_AFTER))
                .await;
        }
    }

    async fn take(&self) -> Result<Infallible, BusError> {
        let name = self.name.as_str();
        let consumer = self.consumer(name).await?;
        let mut more = true;
        loop {
            let Some(slot) = self.slots.take_one(self.lane).await else {
                return Err(self.broken("the slots are closed"));
            };
            if more {
                more = self.fetch(&consumer, slot).await?;
            } else {
                // An idle queue must not hold a slot that a busy queue needs.
                drop(slot);
                more = self.wait_for_one(&consumer).await?;
            }
        }
    }

    /// The queue's consumer. The executor creates it when it gets a heartbeat of a node that has the tool. A
    /// missing one (at the first start, or after the server has lost its disk) therefore causes a heartbeat.
    async fn consumer(&self, name: &str) -> Result<Consumer<pull::Config>, BusError> {
        let (mut pause, mut is_logged) = (LOOK_FIRST, false);
        loop {
            let missing = match self.bus.queue(name, self.lane).await {
                Err(error @ BusError::NoQueue { .. }) => error,
                other => return other,
            };
            if pause >= LOOK_MAX {
                if !is_logged {
                    tracing::info!(%missing, "queue does not exist yet; it is looked up until it does");
                }
                is_logged = true;
                // An older executor makes no consumer of the overflow.
                if self.lane == Lane::Normal {
                    self.context.leases.heartbeat_now();
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LOOK_MAX);
        }
    }

    /// Receives waiting messages for the free slots. Returns whether there are more.
    async fn fetch(
        &self,
        consumer: &Consumer<pull::Config>,
        mut slots: TakenSlots,
    ) -> Result<bool, BusError> {
        self.slots.add_free(&mut slots, FETCH_MAX);
        let fetched = consumer.fetch().max_messages(slots.number());
        let mut messages = fetched
            .messages()
            .await
            .map_err(|error| self.broken(&error.to_string()))?;
        let mut more = false;
        while let Ok(Some(next)) = tokio::time::timeout(FETCH_WAIT, messages.next()).await {
            let message = next.map_err(|error| self.broken(&error.to_string()))?;
            let Some(slot) = slots.split_one() else {
                break;
            };
            more = has_more(&message);
            self.begin(message, slot);
        }
        Ok(more)
    }

    /// Waits for the next message. Returns whether there are more.
    async fn wait_for_one(&self, consumer: &Consumer<pull::Config>) -> Result<bool, BusError> {
        let mut messages = consumer
            .stream()
            .heartbeat(PULL_HEARTBEAT)
            .expires(PULL_EXPIRES)
            .max_messages_per_batch(1)
            .messages()
            .await
            .map_err(|error| self.broken(&error.to_string()))?;
        let message = match messages.next().await {
            Some(Ok(message)) => message,
            // The server has lost the pull, for example with the consumer. The client would request again only
            // after the pull has expired, so the caller opens a new one.
            Some(Err(error)) if error.kind() == MessagesErrorKind::MissingHeartbeat => {
                tracing::info!(queue = %self.name, "no heartbeat from the bus; pulling again");
                return Ok(true);
            }
            Some(Err(error)) => return Err(self.broken(&error.to_string())),
            None => return Err(self.broken("the pull has ended")),
        };
        // An open stream would pull again by itself.
        drop(messages);
        let more = has_more(&message);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let slot = tokio::time::timeout(SLOT_WAIT, self.slots.take_one(self.lane)).await;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        match slot {
            Ok(Some(slot)) => self.begin(message, slot),
            Ok(None) | Err(_) => {
                if let Err(error) = message.ack_with(AckKind::Nak(None)).await {
                    tracing::debug!(%error, "nak not sent; the step will be redelivered");
                }
            }
        }
        Ok(more)
    }

    fn begin(&self, message: Message, slot: TakenSlots) {
        let (context, tool) = (Arc::clone(&self.context), Arc::clone(&self.tool));
        let work = job::run_step(context, tool, message, slot);
        let given_up = self.given_up.clone();
        self.jobs.spawn(given_up.run_until_cancelled_owned(work));
    }

    fn broken(&self, reason: &str) -> BusError {
        BusError::Pull {
            consumer: subject::steps_consumer(self.name.as_str(), self.lane),
            reason: reason.to_owned(),
        }
    }
}

fn has_more(message: &Message) -> bool {
    message.info().is_ok_and(|info| info.pending > 0)
}
