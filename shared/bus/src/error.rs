//! What can go wrong with the bus.

use async_nats::jetstream;
use async_nats::jetstream::context::PublishErrorKind;

/// The bus did not do what was asked; trying again may help.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// The address cannot be read.
    #[error("`{url}` is not a NATS address; expected nats://[KEY@]host:port")]
    Address {
        /// As given, without its credentials.
        url: String,
        #[source]
        source: std::io::Error,
    },
    /// No connection could be made.
    #[error("cannot connect to NATS at {url}")]
    Connect {
        /// Where it was tried.
        url: String,
        #[source]
        source: async_nats::ConnectError,
    },
    /// What the server asks of its clients cannot be used.
    #[error("cannot use {what}: {reason}")]
    Access {
        /// Which address, key or file; never a secret.
        what: String,
        reason: String,
    },
    /// A core subscription was refused.
    #[error("cannot subscribe")]
    Subscribe(#[from] async_nats::SubscribeError),
    /// A core message was not sent.
    #[error("cannot send")]
    Send(#[from] async_nats::PublishError),
    /// JetStream did not store a message.
    #[error("JetStream did not store the message")]
    Publish(#[from] jetstream::context::PublishError),
    /// A stream could not be made or brought up to date.
    #[error("cannot provide stream {stream}")]
    Stream {
        stream: String,
        #[source]
        source: jetstream::context::CreateStreamError,
    },
    /// A queue of steps has no consumer yet: the executor makes it when a node offers its tool.
    #[error("the queue `{queue}` is not there yet: the executor makes it")]
    NoQueue { queue: String },
    /// A stream could not be looked at.
    #[error("cannot look at stream {stream}: {reason}")]
    Look { stream: String, reason: String },
    /// A durable consumer could not be made.
    #[error("cannot provide consumer {consumer} of {stream}")]
    Consumer {
        stream: String,
        consumer: String,
        #[source]
        source: jetstream::stream::ConsumerError,
    },
    /// A pull could not be opened.
    #[error("cannot pull from consumer {consumer}: {reason}")]
    Pull { consumer: String, reason: String },
}

impl BusError {
    /// Whether the server said nothing at all to what it was to store. One that refuses for a reason says
    /// so; one that has met a full disk does not.
    #[must_use]
    pub fn is_silence(&self) -> bool {
        matches!(self, Self::Publish(error) if error.kind() == PublishErrorKind::TimedOut)
    }
}
