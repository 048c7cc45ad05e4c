//! How messages come in: core requests of callers who wait, and the durable consumer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::AckKind;
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use holdpoint_bus::{Bus, BusError, Share, StreamUse};
use holdpoint_contracts::message::Reply;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::subject::{self, Parts};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::activity::KernelStatus;
use crate::commit::write;
use crate::start::vital;
use crate::task::{Origin, Raw, Settlement, Task};
use crate::{DecodedCommand, Service};

/// How long a delivery may take until the bus gives it out again: what was in flight at a kill waits
/// this long. A second delivery while the first is still being handled is harmless.
const ACK_WAIT: Duration = Duration::from_secs(10);

/// Bytes of messages that wait for the database thread or are in its hands; senders wait beyond it.
pub(crate) const BYTES_MAX: usize = 64 << 20;

/// Where messages go.
pub(crate) struct Intake<S: Service> {
    pub(crate) service: Arc<S>,
    pub(crate) bus: Bus,
    pub(crate) tasks: mpsc::Sender<Task<S>>,
    /// Bytes that may still wait for the writer.
    pub(crate) room: Arc<Semaphore>,
    pub(crate) activity: KernelStatus,
    pub(crate) stop: CancellationToken,
}

impl<S: Service> Clone for Intake<S> {
    fn clone(&self) -> Self {
        Self {
            service: Arc::clone(&self.service),
            bus: self.bus.clone(),
            tasks: self.tasks.clone(),
            room: Arc::clone(&self.room),
            activity: self.activity.clone(),
            stop: self.stop.clone(),
        }
    }
}

impl<S: Service> Intake<S> {
    /// Opens all ways in.
    pub(crate) async fn open(
        &self,
        is_exclusive: bool,
        tracker: &TaskTracker,
    ) -> Result<(), BusError> {
        let requests = self.subscribe().await?;
        tracker.spawn(vital::<S>("requests").run(self.clone().asks(requests)));
        let shares = Share::of(is_exclusive);
        self.bus.remove_other_shares(S::NAME, &shares).await?;
        for share in shares {
            let taking = self.clone().commands(share);
            tracker.spawn(vital::<S>("commands").run(taking));
        }
        Ok(())
    }

    /// Takes core requests until it is told to stop.
    async fn asks(self, mut requests: async_nats::Subscriber) {
        while let Some(Some(message)) = self.stop.run_until_cancelled(requests.next()).await {
            let reply = message.reply.map(|reply| reply.to_string());
            let origin = Origin::Ask {
                reply: reply.filter(|inbox| subject::is_inbox(inbox)),
            };
            self.take(message.subject.to_string(), message.payload, origin)
                .await;
        }
        if let Err(error) = requests.unsubscribe().await {
            tracing::debug!(%error, "while stopping");
        }
    }

    /// Opens the subscription for core requests; replicas share them.
    async fn subscribe(&self) -> Result<async_nats::Subscriber, BusError> {
        let filter = subject::asks_filter(S::NAME);
        Ok(self
            .bus
            .client()
            .queue_subscribe(filter, S::NAME.to_owned())
            .await?)
    }

    /// Takes stored commands until it is told to stop; opens the pull again when it breaks.
    async fn commands(self, share: Share) {
        while !self.stop.is_cancelled() {
            match self.open_pull(share).await {
                Ok(messages) => self.pull(messages).await,
                Err(error) => tracing::warn!(%error, "no commands can be pulled; trying again"),
            }
            self.stop
                .run_until_cancelled(tokio::time::sleep(Duration::from_secs(1)))
                .await;
        }
    }

    async fn open_pull(
        &self,
        share: Share,
    ) -> Result<async_nats::jetstream::consumer::pull::Stream, BusError> {
        // The stream is gone where the server lost its disk, and nobody else may make it.
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
                        is_kept: reply.is_some() && is_kept(message.headers.as_ref()),
                        reply,
                    };
                    self.take(message.subject.to_string(), message.payload, origin)
                        .await;
                }
                // A missing heartbeat is an item, not the end.
                Err(error) => tracing::debug!(%error, service = S::NAME, "while pulling"),
            }
        }
        give_back(messages).await;
    }

    async fn take(&self, subject: String, body: Bytes, origin: Origin) {
        let room = self.room_for(body.len()).await;
        let isolation = &self.activity.isolation;
        let unread = Unread {
            origin,
            raw: Raw { subject, body },
            room,
            is_isolated: isolation.is_isolated(),
        };
        // After an unclean exit reading may be what ends the process: the writer notes it before.
        if isolation.is_on() {
            return self.submit(unread.into_task()).await;
        }
        match read(&*self.service, unread) {
            Ok(task) => self.submit(task).await,
            Err((mut origin, body)) => {
                origin.answer(&self.bus, Some(body)).await;
                origin.settle(&self.bus, Settlement::Done).await;
            }
        }
    }

    /// Waits until a message of this size may wait for the writer.
    async fn room_for(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        // A message above the limit goes when nothing else waits.
        let bytes = u32::try_from(bytes.min(BYTES_MAX)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(bytes).await;
        // It is never closed.
        room.ok()
    }

    /// Puts a task before the writer; waits while it has its hands full.
    pub(crate) async fn submit(&self, task: Task<S>) {
        self.activity.in_flight.fetch_add(1, Ordering::AcqRel);
        if self.tasks.send(task).await.is_err() {
            self.activity.in_flight.fetch_sub(1, Ordering::AcqRel);
            tracing::debug!(
                service = S::NAME,
                "stopping: a message is left to the next start"
            );
        }
    }
}

/// A message as it came in.
pub(crate) struct Unread {
    pub(crate) origin: Origin,
    pub(crate) raw: Raw,
    pub(crate) room: Option<OwnedSemaphorePermit>,
    pub(crate) is_isolated: bool,
}

impl Unread {
    /// For the writer, who reads it.
    pub(crate) fn into_task<S: Service>(self) -> Task<S> {
        Task {
            inputs: Vec::new(),
            many: false,
            whole: false,
            asked: None,
            origin: self.origin,
            poison: None,
            raw: self.raw,
            is_unread: true,
            is_isolated: self.is_isolated,
            room: self.room,
        }
    }
}

/// Reads a message. An error is the answer to a sender that can mend it, or that keeps it: then there is
/// nothing else to do.
pub(crate) fn read<S: Service>(service: &S, unread: Unread) -> Result<Task<S>, (Origin, Bytes)> {
    let subject = &unread.raw.subject;
    let unknown = || Problem::new(400, "invalid_subject", format!("`{subject}` is no command"));
    let decoded = subject::parse(subject)
        .ok_or_else(unknown)
        .and_then(|parts| {
            let request = service.decode(&parts, &unread.raw.body)?;
            Ok(within(&parts, request))
        });
    match (decoded, &unread.origin) {
        (Ok(request), _) => Ok(Task {
            inputs: request.inputs,
            many: request.many,
            whole: request.whole,
            asked: request.asked,
            is_unread: false,
            ..unread.into_task()
        }),
        // Who waits is told and can mend it; nothing has to be kept.
        (Err(problem), Origin::Ask { .. }) => {
            tracing::info!(service = S::NAME, subject, %problem, "refused");
            Err((unread.origin, write(&Reply::<()>::Problem(problem))))
        }
        // Its sender keeps it and sends it again; perhaps a later version of this service can read it.
        (Err(problem), Origin::Stream { is_kept: true, .. }) => {
            tracing::warn!(service = S::NAME, subject, %problem, "a message of another service cannot be read; its sender keeps it");
            Err((unread.origin, write(&Reply::<()>::Problem(problem))))
        }
        (Err(problem), _) => Ok(Task {
            poison: Some(problem),
            is_unread: false,
            ..unread.into_task()
        }),
    }
}

/// A caller's key is its own within one workspace and command: nobody is answered with what somebody
/// else was told, and no command is taken for the repetition of another.
fn within<I>(parts: &Parts, mut request: DecodedCommand<I>) -> DecodedCommand<I> {
    if let Some(asked) = &mut request.asked {
        let Parts {
            workspace, verb, ..
        } = parts;
        asked.key = format!("{workspace}/{verb}/{}", asked.key);
    }
    request
}

/// What was pulled and not taken goes back at once, so that the next start need not wait for it.
async fn give_back(mut messages: async_nats::jetstream::consumer::pull::Stream) {
    while let Some(Some(Ok(message))) = messages.next().now_or_never() {
        if let Err(error) = message.ack_with(AckKind::Nak(None)).await {
            tracing::debug!(%error, "while stopping: a message comes again later");
        }
    }
}

/// Whether the sender sends the message again until it is accepted.
fn is_kept(headers: Option<&HeaderMap>) -> bool {
    headers.is_some_and(|headers| headers.get(subject::KEPT_HEADER).is_some())
}

fn reply_inbox(headers: Option<&HeaderMap>) -> Option<String> {
    let inbox = headers?.get(subject::REPLY_HEADER)?.as_str();
    // Anything else could make the service publish a command in somebody's name.
    subject::is_inbox(inbox).then(|| inbox.to_owned())
}
