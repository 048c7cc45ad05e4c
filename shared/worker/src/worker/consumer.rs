//! Takes deliveries of one queue, and never more than can start.
//!
//! Owns the pulls. A message that lies in a buffer is neither worked on nor kept alive, so each
//! pull is opened for what there is room for and closed again.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::jetstream::consumer::Consumer;
use async_nats::jetstream::consumer::pull::{self, MessagesErrorKind};
use async_nats::jetstream::{AckKind, Message};
use futures_util::StreamExt;
use holdpoint_bus::{Bus, BusError, PULL_EXPIRES, PULL_HEARTBEAT};
use holdpoint_contracts::subject;
use holdpoint_ids::ToolName;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::job::{self, JobContext};
use crate::tool::Tool;

/// Most messages of one pull of what is there.
const FETCH_MAX: usize = 64;

/// The server answers a pull of what is there at once; if not, the pull was lost.
const FETCH_WAIT: Duration = Duration::from_secs(1);

/// A delivery waits no longer than this for a place: another worker may have one. Shorter than
/// the ack wait.
const PLACE_WAIT: Duration = Duration::from_secs(1);

/// Until a queue that is not there is looked for again: at first, and at most.
const LOOK_FIRST: Duration = Duration::from_millis(10);
const LOOK_MAX: Duration = Duration::from_secs(1);

/// Until a broken pull is opened again.
const OPEN_AGAIN: Duration = Duration::from_secs(1);

/// The queue of one tool.
pub(super) struct Queue {
    pub(super) name: ToolName,
    pub(super) tool: Arc<dyn Tool>,
    pub(super) bus: Bus,
    pub(super) places: Arc<Semaphore>,
    /// Deliveries of all queues that wait for a place.
    pub(super) waiting: Arc<AtomicU64>,
    pub(super) bench: Arc<JobContext>,
    pub(super) jobs: TaskTracker,
    pub(super) given_up: CancellationToken,
}

impl Queue {
    /// Takes steps until `stop`; whatever breaks is opened again.
    pub(super) async fn take_until(self, stop: CancellationToken) {
        while let Some(Err(error)) = stop.run_until_cancelled(self.take()).await {
            tracing::warn!(queue = %self.name, %error, "the queue is opened again");
            stop.run_until_cancelled(tokio::time::sleep(OPEN_AGAIN))
                .await;
        }
    }

    async fn take(&self) -> Result<Infallible, BusError> {
        let name = self.name.as_str();
        let consumer = self.consumer(name).await?;
        let mut more = true;
        loop {
            let Some(place) = self.place().await else {
                return Err(self.broken("no places any more"));
            };
            if more {
                more = self.fetch(&consumer, place).await?;
            } else {
                // Kept by an idle queue it would be missing in a busy one.
                drop(place);
                more = self.wait_for_one(&consumer).await?;
            }
        }
    }

    /// The queue's consumer. The executor makes it when it hears from a node that has the tool, so a beat
    /// asks for one that is missing: at the first start, or after the server has lost its disk.
    async fn consumer(&self, name: &str) -> Result<Consumer<pull::Config>, BusError> {
        let (mut pause, mut is_told) = (LOOK_FIRST, false);
        loop {
            let missing = match self.bus.queue(name).await {
                Err(error @ BusError::NoQueue { .. }) => error,
                other => return other,
            };
            if pause >= LOOK_MAX {
                if !is_told {
                    tracing::info!(%missing, "no steps are taken from it until then");
                }
                is_told = true;
                self.bench.held.heartbeat_now();
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LOOK_MAX);
        }
    }

    /// Takes as much of what is there as there are free places; says whether there is more.
    async fn fetch(
        &self,
        consumer: &Consumer<pull::Config>,
        mut places: OwnedSemaphorePermit,
    ) -> Result<bool, BusError> {
        let others = self.places.available_permits().min(FETCH_MAX - 1);
        let others = u32::try_from(others).unwrap_or(0);
        if let Ok(others) = Arc::clone(&self.places).try_acquire_many_owned(others) {
            places.merge(others);
        }
        let fetched = consumer.fetch().max_messages(places.num_permits());
        let mut messages = fetched
            .messages()
            .await
            .map_err(|error| self.broken(&error.to_string()))?;
        let mut more = false;
        while let Ok(Some(next)) = tokio::time::timeout(FETCH_WAIT, messages.next()).await {
            let message = next.map_err(|error| self.broken(&error.to_string()))?;
            let Some(place) = places.split(1) else {
                break;
            };
            more = leaves_more(&message);
            self.begin(message, place);
        }
        Ok(more)
    }

    /// Waits for the next message; says whether there is more.
    async fn wait_for_one(&self, consumer: &Consumer<pull::Config>) -> Result<bool, BusError> {
        let mut messages = consumer
            .stream()
            .heartbeat(PULL_HEARTBEAT)
            .expires(PULL_EXPIRES)
            .max_messages_per_batch(1)
            .messages()
            .await
            .map_err(|error| self.broken(&error.to_string()))?;
        let message = loop {
            match messages.next().await {
                Some(Ok(message)) => break message,
                Some(Err(error)) if error.kind() == MessagesErrorKind::MissingHeartbeat => {
                    tracing::info!(queue = %self.name, "the bus is silent; pulling again");
                }
                Some(Err(error)) => return Err(self.broken(&error.to_string())),
                None => return Err(self.broken("the pull has ended")),
            }
        };
        // Left open it would pull again by itself.
        drop(messages);
        let more = leaves_more(&message);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let place = tokio::time::timeout(PLACE_WAIT, self.place()).await;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        match place {
            Ok(Some(place)) => self.begin(message, place),
            Ok(None) | Err(_) => {
                if let Err(error) = message.ack_with(AckKind::Nak(None)).await {
                    tracing::debug!(%error, "a step was not given back; it comes again");
                }
            }
        }
        Ok(more)
    }

    async fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).acquire_owned().await.ok()
    }

    fn begin(&self, message: Message, place: OwnedSemaphorePermit) {
        let (bench, tool) = (Arc::clone(&self.bench), Arc::clone(&self.tool));
        let work = job::work(bench, tool, message, place);
        let given_up = self.given_up.clone();
        self.jobs.spawn(given_up.run_until_cancelled_owned(work));
    }

    fn broken(&self, reason: &str) -> BusError {
        BusError::Pull {
            consumer: subject::steps_consumer(self.name.as_str()),
            reason: reason.to_owned(),
        }
    }
}

fn leaves_more(message: &Message) -> bool {
    message.info().is_ok_and(|info| info.pending > 0)
}
