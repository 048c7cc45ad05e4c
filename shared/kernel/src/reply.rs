//! Replies: their JSON, their size and their way to the caller.

use bytes::Bytes;
use holdpoint_bus::Bus;
use holdpoint_contracts::message::Reply;
use holdpoint_contracts::problem::Problem;
use serde::Serialize;

use crate::service::{ReplyOf, Service};

pub(crate) struct TaskReply<S: Service> {
    pub(crate) body: Bytes,
    /// Whether the command was done. Only that is stored under its idempotency key.
    pub(crate) is_ok: bool,
    /// The reply to the only input, if a later decision completes it.
    pub(crate) incomplete: Option<ReplyOf<S>>,
}

/// A reply as JSON. A value that cannot be serialized is our bug, and the caller gets a problem.
pub(crate) fn reply_json<T: Serialize>(reply: &T) -> Bytes {
    serde_json::to_vec(reply).map_or_else(
        |error| {
            tracing::error!(%error, "reply cannot be serialized; the caller gets an internal error");
            Bytes::from_static(
                br#"{"problem":{"status":500,"code":"internal","detail":"the reply cannot be serialized"}}"#,
            )
        },
        Bytes::from,
    )
}

pub(crate) fn problem_json(problem: Problem) -> Bytes {
    reply_json(&Reply::<()>::Problem(problem))
}

/// Sends a reply. It may be lost: the caller repeats its request.
pub(crate) async fn send_reply(bus: &Bus, inbox: Option<String>, body: Option<Bytes>) {
    let (Some(inbox), Some(body)) = (inbox, body) else {
        return;
    };
    if !bus.is_connected() {
        tracing::debug!(
            "reply not sent because the bus is disconnected; the caller will ask again"
        );
        return;
    }
    if let Err(error) = bus.send(inbox, fit_to_bus(bus, body)).await {
        tracing::warn!(%error, "reply not sent; the caller will ask again");
    }
}

/// The reply, or a problem if it is too large for the bus: without one the caller would wait in vain.
fn fit_to_bus(bus: &Bus, body: Bytes) -> Bytes {
    let (bytes, bytes_max) = (body.len(), bus.max_payload());
    if bytes <= bytes_max {
        return body;
    }
    tracing::warn!(
        bytes,
        bytes_max,
        "reply is too large for the bus; the caller gets a problem"
    );
    let detail =
        format!("the reply has {bytes} bytes and the bus allows {bytes_max}; ask for less");
    problem_json(Problem::new(413, "answer_too_large", detail))
}
