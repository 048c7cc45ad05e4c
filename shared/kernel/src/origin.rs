//! Where a message came from, and how its sender is answered.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::jetstream::AckKind;
use async_nats::jetstream::message::Acker;
use bytes::Bytes;
use holdpoint_bus::Bus;
use holdpoint_contracts::problem::Problem;
use tokio::sync::oneshot;

use crate::completion::CompletionQueue;
use crate::desired_states::rows::Sent;
use crate::reply::{problem_json, send_reply};

/// Delay before a message is delivered again.
const REDELIVER_AFTER: Duration = Duration::from_secs(1);

/// Where a task came from: decides who gets a reply and what is acked.
pub(crate) enum Origin {
    /// A core request, whose sender waits.
    Ask {
        reply: Option<String>,
        /// Whether the sender waits until the reply is complete.
        awaits_effect: bool,
    },
    /// A durable consumer: acked after the commit.
    Stream {
        acker: Box<Acker>,
        /// The sender's inbox, from the header `hp-reply`.
        reply: Option<String>,
        /// Whether the sender resends the message until it is accepted.
        is_kept: bool,
    },
    /// The service itself: a wheel or a sweep.
    Internal {
        /// Gets whether everything was committed and published.
        done: oneshot::Sender<bool>,
    },
    /// A desired state of this service. Either its acknowledgement or refusal is decided, or no message
    /// can carry it and it becomes a dead letter.
    DesiredState {
        sent: Sent,
        /// Gets the desired state afterwards, so that its row is deleted.
        completions: CompletionQueue,
    },
    /// One input of a message that could not be committed at once.
    Part {
        message: Arc<SplitMessage>,
        /// Index of the input.
        place: usize,
    },
}

/// What happens to the delivery of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disposition {
    /// Handled, or answered with a problem: ack.
    Ack,
    /// Stored as a dead letter: ack.
    DeadLetter,
    /// Not handled now: the bus delivers it again later.
    Nak,
}

/// A task that the writer has finished.
pub(crate) struct FinishedTask {
    pub(crate) origin: Origin,
    pub(crate) body: Option<Bytes>,
    pub(crate) disposition: Disposition,
}

impl Origin {
    /// A core request whose sender gets the first reply.
    pub(crate) const fn ask(reply: Option<String>) -> Self {
        Self::Ask {
            reply,
            awaits_effect: false,
        }
    }

    /// Replies to the caller. The reply may be lost: callers ask again.
    pub(crate) async fn reply(&mut self, bus: &Bus, body: Option<Bytes>) {
        match self {
            Self::Ask { reply, .. } | Self::Stream { reply, .. } => {
                send_reply(bus, reply.take(), body).await;
            }
            Self::Internal { .. } | Self::DesiredState { .. } | Self::Part { .. } => {}
        }
    }

    /// Acks or naks the delivery. The ack may be lost: the bus delivers again.
    pub(crate) async fn dispose(self, bus: &Bus, disposition: Disposition) {
        match self {
            // An ack that waits for the bus would delay other batches.
            Self::Stream { .. } if !bus.is_connected() => {}
            Self::Stream { acker, .. } => {
                let kind = match disposition {
                    Disposition::Ack | Disposition::DeadLetter => AckKind::Ack,
                    Disposition::Nak => AckKind::Nak(Some(REDELIVER_AFTER)),
                };
                if let Err(error) = acker.ack_with(kind).await {
                    tracing::warn!(%error, "ack not sent; the message will be redelivered");
                }
            }
            // The receiver may have stopped waiting.
            Self::Internal { done } => drop(done.send(disposition == Disposition::Ack)),
            Self::DesiredState { sent, completions } if disposition != Disposition::Nak => {
                completions.acknowledged(vec![sent]);
            }
            // The message of a part is disposed of with its last part.
            Self::Ask { .. } | Self::DesiredState { .. } | Self::Part { .. } => {}
        }
    }
}

/// What the parts of one message share.
pub(crate) struct SplitMessage(Mutex<Progress>);

struct Progress {
    /// `None` once the sender has its reply.
    origin: Option<Box<Origin>>,
    /// In the order of the inputs.
    replies: Vec<Option<Bytes>>,
    left: usize,
    disposition: Disposition,
}

impl SplitMessage {
    pub(crate) fn new(origin: Origin, parts: usize) -> Self {
        Self(Mutex::new(Progress {
            origin: Some(Box::new(origin)),
            replies: vec![None; parts],
            left: parts,
            disposition: Disposition::Ack,
        }))
    }

    /// Records a finished part. The last one returns the finished message.
    fn finish_part(
        &self,
        place: usize,
        body: Option<Bytes>,
        disposition: Disposition,
    ) -> Option<FinishedTask> {
        let mut progress = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let body = match disposition {
            // Sending it again cannot help: the sender has to know, so that it can drop this one.
            Disposition::DeadLetter => Some(problem_json(dead_letter_problem())),
            Disposition::Ack => body,
            // Parts that are committed already are not applied twice, however often they come.
            Disposition::Nak => {
                progress.disposition = Disposition::Nak;
                body
            }
        };
        if let Some(reply) = progress.replies.get_mut(place) {
            *reply = body;
        }
        progress.left = progress.left.saturating_sub(1);
        if progress.left > 0 {
            return None;
        }
        Some(FinishedTask {
            origin: *progress.origin.take()?,
            body: Some(join_replies(&progress.replies)),
            disposition: progress.disposition,
        })
    }
}

/// Replaces parts by the messages whose last part is among them.
pub(crate) fn merge_parts(finished: Vec<FinishedTask>) -> Vec<FinishedTask> {
    let merge = |task: FinishedTask| match task.origin {
        Origin::Part { message, place } => message.finish_part(place, task.body, task.disposition),
        Origin::Ask { .. }
        | Origin::Stream { .. }
        | Origin::Internal { .. }
        | Origin::DesiredState { .. } => Some(task),
    };
    finished.into_iter().filter_map(merge).collect()
}

/// Replaces the reply to a message that became a dead letter: sending it again cannot help.
pub(crate) fn dead_letter_problem() -> Problem {
    let detail = "this cannot be handled; it is kept among the service's dead letters, and an operator can replay it";
    Problem::new(422, "dead_letter", detail)
}

/// The replies as one list, as if the inputs had been decided together.
fn join_replies(replies: &[Option<Bytes>]) -> Bytes {
    let missing = problem_json(Problem::internal());
    let mut body = b"{\"ok\":[".to_vec();
    for (place, reply) in replies.iter().enumerate() {
        if place > 0 {
            body.push(b',');
        }
        body.extend_from_slice(reply.as_ref().unwrap_or(&missing));
    }
    body.extend_from_slice(b"]}");
    Bytes::from(body)
}

#[cfg(test)]
mod tests {
    use holdpoint_contracts::message::Reply;

    use super::*;

    #[test]
    fn the_sender_gets_one_reply_with_every_input_in_order() {
        let message = SplitMessage::new(Origin::ask(None), 3);
        let ok = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
        let ack = Disposition::Ack;
        assert!(message.finish_part(2, ok(r#"{"ok":3}"#), ack).is_none());
        assert!(message.finish_part(0, ok(r#"{"ok":1}"#), ack).is_none());
        let whole = message
            .finish_part(1, None, Disposition::DeadLetter)
            .unwrap();
        assert_eq!(whole.disposition, Disposition::Ack);
        let replies: Reply<Vec<Reply<u8>>> = serde_json::from_slice(&whole.body.unwrap()).unwrap();
        let Reply::Ok(replies) = replies else {
            panic!()
        };
        assert_eq!((&replies[0], &replies[2]), (&Reply::Ok(1), &Reply::Ok(3)));
        assert!(matches!(&replies[1], Reply::Problem(it) if it.status == 422));
    }
}
