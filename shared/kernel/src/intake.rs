//! Receives messages: core requests of callers that wait, and deliveries of the durable consumer.

pub(crate) mod decode;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::AckKind;
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use holdpoint_bus::{Bus, BusError, PartitionShare, StreamUse};
use holdpoint_contracts::subject;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::decode::decode;
use crate::origin::{Disposition, Origin};
use crate::service::{Service, vital};
use crate::status::KernelStatus;
use crate::task::{Raw, Task};

/// The bus redelivers a message that is not acked within this time, for example after a kill. A second
/// delivery while the first is still being handled is harmless.
const ACK_WAIT: Duration = Duration::from_secs(10);

/// Bytes of messages that wait for the database thread or are processed by it. Beyond it senders wait.
pub(crate) const BYTES_MAX: usize = 64 << 20;

/// The way of messages to the database thread.
pub(crate) struct Intake<S: Service> {
    pub(crate) service: Arc<S>,
    pub(crate) bus: Bus,
    pub(crate) tasks: mpsc::Sender<Task<S>>,
    /// One permit per byte of [`BYTES_MAX`].
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) status: KernelStatus,
    pub(crate) stop: CancellationToken,
}

impl<S: Service> Intake<S> {
    /// Starts to receive core requests and deliveries.
    pub(crate) async fn open(
        self: &Arc<Self>,
        is_exclusive: bool,
        tracker: &TaskTracker,
    ) -> Result<(), BusError> {
        let requests = self.subscribe().await?;
        tracker.spawn(vital::<S>("requests").run(Arc::clone(self).receive_requests(requests)));
        let shares = PartitionShare::of(is_exclusive);
        self.bus.remove_other_shares(S::NAME, &shares).await?;
        for share in shares {
            let receiving = Arc::clone(self).receive_commands(share);
            tracker.spawn(vital::<S>("commands").run(receiving));
        }
        Ok(())
    }

    /// Receives core requests until the service stops.
    async fn receive_requests(self: Arc<Self>, mut requests: async_nats::Subscriber) {
        while let Some(Some(message)) = self.stop.run_until_cancelled(requests.next()).await {
            let reply = message.reply.map(|reply| reply.to_string());
            let origin = Origin::Ask {
                reply: reply.filter(|inbox| subject::is_inbox(inbox)),
                awaits_effect: has_header(message.headers.as_ref(), subject::AWAIT_EFFECT_HEADER),
            };
            self.receive(message.subject.to_string(), message.payload, origin)
                .await;
        }
        if let Err(error) = requests.unsubscribe().await {
            tracing::debug!(%error, "unsubscribing failed while stopping");
        }
    }

    /// Subscribes to core requests, which replicas share.
    async fn subscribe(&self) -> Result<async_nats::Subscriber, BusError> {
        let filter = subject::asks_filter(S::NAME);
        Ok(self
            .bus
            .client()
            .queue_subscribe(filter, S::NAME.to_owned())
            .await?)
    }

    /// Receives stored commands until the service stops. A broken pull is opened again.
    async fn receive_commands(self: Arc<Self>, share: PartitionShare) {
        while !self.stop.is_cancelled() {
            match self.open_pull(share).await {
                Ok(messages) => self.pull(messages).await,
                Err(error) => tracing::warn!(%error, "commands cannot be pulled; trying again"),
            }
            self.stop
                .run_until_cancelled(tokio::time::sleep(Duration::from_secs(1)))
                .await;
        }
    }

    async fn open_pull(
        &self,
        share: PartitionShare,
    ) -> Result<async_nats::jetstream::consumer::pull::Stream, BusError> {
        // A server that lost its disk has no stream, and only the service may create it.
        self.bus
            .provide_stream(StreamUse::Commands(S::NAME))
            .await?;
        self.bus.pull_commands(S::NAME, share, ACK_WAIT).await
    }

    async fn pull(&self, mut messages: async_nats::jetstream::consumer::pull::Stream) {
        while let Some(Some(message)) = self.stop.run_until_cancelled(messages.next()).await {
            match message {
                Ok(message) => {
                    let (message, acker) = message.split();
                    let reply = reply_inbox(message.headers.as_ref());
                    let origin = Origin::Stream {
                        acker: Box::new(acker),
                        is_kept: reply.is_some()
                            && has_header(message.headers.as_ref(), subject::KEPT_HEADER),
                        reply,
                    };
                    self.receive(message.subject.to_string(), message.payload, origin)
                        .await;
                }
                // The client would request again only after the pull has expired.
                Err(error) => {
                    tracing::debug!(%error, service = S::NAME, "pull broken; it is opened again");
                    break;
                }
            }
        }
        nak_pulled(messages).await;
    }

    async fn receive(&self, subject: String, body: Bytes, origin: Origin) {
        let permit = self.wait_for_bytes(body.len()).await;
        let isolation = &self.status.isolation;
        let task = Task {
            permit,
            is_isolated: isolation.is_isolated(),
            ..Task::unread(origin, Raw { subject, body })
        };
        // After an unclean exit decoding may be what ends the process: the writer notes the message first.
        if isolation.is_on() {
            return self.submit(task).await;
        }
        match decode(&*self.service, task) {
            Ok(task) => self.submit(task).await,
            Err((mut origin, body)) => {
                origin.reply(&self.bus, Some(body)).await;
                origin.dispose(&self.bus, Disposition::Ack).await;
            }
        }
    }

    /// Waits until a message of this size may wait for the writer.
    async fn wait_for_bytes(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        // A message above the limit waits until no other message waits.
        let bytes = u32::try_from(bytes.min(BYTES_MAX)).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.permits).acquire_many_owned(bytes).await;
        // The semaphore is never closed.
        permit.ok()
    }

    /// Gives a task to the writer; waits while its channel is full.
    pub(crate) async fn submit(&self, task: Task<S>) {
        self.status.in_flight.fetch_add(1, Ordering::AcqRel);
        if self.tasks.send(task).await.is_err() {
            self.status.in_flight.fetch_sub(1, Ordering::AcqRel);
            tracing::debug!(
                service = S::NAME,
                "service stops; the message is left to the next start"
            );
        }
    }
}

/// Naks messages that were pulled and not taken, so that the next start does not wait for them.
async fn nak_pulled(mut messages: async_nats::jetstream::consumer::pull::Stream) {
    while let Some(Some(Ok(message))) = messages.next().now_or_never() {
        if let Err(error) = message.ack_with(AckKind::Nak(None)).await {
            tracing::debug!(%error, "nak not sent while stopping; the message is redelivered later");
        }
    }
}

fn has_header(headers: Option<&HeaderMap>, name: &str) -> bool {
    headers.is_some_and(|headers| headers.get(name).is_some())
}

fn reply_inbox(headers: Option<&HeaderMap>) -> Option<String> {
    let inbox = headers?.get(subject::REPLY_HEADER)?.as_str();
    // Any other subject could make the service publish a command in another sender's name.
    subject::is_inbox(inbox).then(|| inbox.to_owned())
}
