//! Errors of the bus.

use async_nats::jetstream;
use async_nats::jetstream::context::PublishErrorKind;

/// An operation on the bus failed. Trying again may help.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    #[error("`{url}` is not a NATS address; expected nats://[KEY@]host:port")]
    Address {
        /// As given, without its credentials.
        url: String,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot connect to NATS at {url}")]
    Connect {
        url: String,
        #[source]
        source: async_nats::ConnectError,
    },
    /// Invalid credentials.
    #[error("cannot use {what}: {reason}")]
    Access {
        /// The key or file; never a secret.
        what: String,
        reason: String,
    },
    #[error("cannot subscribe")]
    Subscribe(#[from] async_nats::SubscribeError),
    #[error("cannot send the message")]
    Send(#[from] async_nats::PublishError),
    #[error("JetStream did not store the message")]
    Publish(#[from] jetstream::context::PublishError),
    #[error("cannot provide stream {stream}")]
    Stream {
        stream: String,
        #[source]
        source: jetstream::context::CreateStreamError,
    },
    /// A queue has no consumer yet: the executor creates it when a node offers its tool.
    #[error("the queue `{queue}` does not exist yet; the executor creates it")]
    NoQueue { queue: String },
    #[error("cannot read the state of stream {stream}: {reason}")]
    Read { stream: String, reason: String },
    #[error("cannot provide consumer {consumer} of {stream}")]
    Consumer {
        stream: String,
        consumer: String,
        #[source]
        source: jetstream::stream::ConsumerError,
    },
    #[error("cannot pull from consumer {consumer}: {reason}")]
    Pull { consumer: String, reason: String },
}

impl BusError {
    /// Whether the server did not answer when it should store a message. It answers a refusal with a
    /// reason, but it stays silent after a full disk.
    #[must_use]
    pub fn is_silence(&self) -> bool {
        matches!(self, Self::Publish(error) if error.kind() == PublishErrorKind::TimedOut)
    }
}
