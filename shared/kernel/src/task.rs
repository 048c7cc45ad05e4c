//! One message on its way through the kernel, and how its sender is answered.

use std::sync::Arc;

use async_nats::jetstream::AckKind;
use async_nats::jetstream::message::Acker;
use bytes::Bytes;
use holdpoint_bus::Bus;
use holdpoint_contracts::message::{IdempotencyKey, Reply};
use holdpoint_contracts::problem::Problem;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::commit::write;
use crate::desired_states::Sent;
use crate::publisher::Published;
use crate::split::Whole;
use crate::{InputOf, Service};

/// A decoded message and where it came from.
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent properties of a message, each read by name"
)]
pub(crate) struct Task<S: Service> {
    pub(crate) inputs: Vec<InputOf<S>>,
    pub(crate) many: bool,
    /// All or none ([`crate::Request::whole`]): it is a batch of its own.
    pub(crate) whole: bool,
    pub(crate) asked: Option<IdempotencyKey>,
    pub(crate) origin: Origin,
    /// Why it cannot be handled at all, if so: then it has no inputs.
    pub(crate) poison: Option<Problem>,
    /// As it came, for the dead letter.
    pub(crate) raw: Raw,
    /// Whether the writer has to read it: reading may be what ends the process.
    pub(crate) is_unread: bool,
    /// Whether it is decided alone: it came in while the kernel isolated inputs.
    pub(crate) is_isolated: bool,
    /// Its share of what may wait; free once it is committed.
    pub(crate) room: Option<OwnedSemaphorePermit>,
}

/// A message as it came.
#[derive(Debug, Clone)]
pub(crate) struct Raw {
    pub(crate) subject: String,
    pub(crate) body: Bytes,
}

/// Where a task came from: decides who is told what.
pub(crate) enum Origin {
    /// A core request: its sender waits.
    Ask {
        /// Where the answer goes.
        reply: Option<String>,
    },
    /// A durable consumer: acked after the commit.
    Stream {
        acker: Box<Acker>,
        /// The sender's inbox, from the header `hp-reply`.
        reply: Option<String>,
        /// Whether the sender sends it again until it is accepted.
        is_kept: bool,
    },
    /// The service itself: a wheel, a sweeper.
    Internal {
        /// Told whether all was committed and published.
        done: oneshot::Sender<bool>,
    },
    /// A desired state of the service that no message can carry, which only waits to be buried; or one whose
    /// answer the service decides about.
    DesiredState {
        /// Which; its row goes once that is done.
        sent: Sent,
        /// Where that is told.
        published: Published,
    },
    /// One input of a message that could not be committed as a whole.
    Part {
        whole: Arc<Whole>,
        /// Which of its inputs.
        place: usize,
    },
}

/// What becomes of a task that was not committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settlement {
    /// Handled: ack.
    Done,
    /// Kept as a dead letter: ack.
    Buried,
    /// Not now: have it delivered again later.
    Again,
}

/// Delay before a message is delivered again.
const AGAIN_AFTER: std::time::Duration = std::time::Duration::from_secs(1);

impl Origin {
    /// Sends the answer to who waits. It may be lost: senders ask again.
    pub(crate) async fn answer(&mut self, bus: &Bus, body: Option<Bytes>) {
        match self {
            Self::Ask { reply } | Self::Stream { reply, .. } => {
                answer(bus, reply.take(), body).await;
            }
            Self::Internal { .. } | Self::DesiredState { .. } | Self::Part { .. } => {}
        }
    }

    /// Settles the delivery. That may be lost: the bus delivers again.
    pub(crate) async fn settle(self, bus: &Bus, settlement: Settlement) {
        match self {
            Self::Ask { .. } => {}
            // An ack that waits for the bus would hold up what goes on without it.
            Self::Stream { .. } if !bus.is_connected() => {}
            Self::Stream { acker, .. } => {
                let kind = match settlement {
                    Settlement::Done | Settlement::Buried => AckKind::Ack,
                    Settlement::Again => AckKind::Nak(Some(AGAIN_AFTER)),
                };
                if let Err(error) = acker.ack_with(kind).await {
                    tracing::warn!(%error, "an ack was not sent; the message will come again");
                }
            }
            // Who waits may have given up; that is its business.
            Self::Internal { done } => drop(done.send(settlement == Settlement::Done)),
            Self::DesiredState { sent, published } if settlement != Settlement::Again => {
                published.confirmed(vec![sent]);
            }
            Self::DesiredState { .. } => {}
            // Its whole is settled in its place.
            Self::Part { .. } => {}
        }
    }
}

pub(crate) async fn answer(bus: &Bus, reply: Option<String>, body: Option<Bytes>) {
    let (Some(reply), Some(body)) = (reply, body) else {
        return;
    };
    if !bus.is_connected() {
        tracing::debug!("the bus is away; the caller will ask again");
        return;
    }
    let body = fitting(bus, body);
    if let Err(error) = bus.send(reply, body).await {
        tracing::warn!(%error, "an answer was not sent; the caller will ask again");
    }
}

/// The answer, or a problem where the bus would not take it: silence would leave the caller waiting.
pub(crate) fn fitting(bus: &Bus, body: Bytes) -> Bytes {
    let (bytes, most) = (body.len(), bus.max_payload());
    if bytes <= most {
        return body;
    }
    tracing::warn!(bytes, most, "an answer is too large for the bus");
    let detail = format!("the answer is {bytes} bytes and the bus takes {most}; ask for less");
    write(&Reply::<()>::Problem(Problem::new(
        413,
        "answer_too_large",
        detail,
    )))
}
