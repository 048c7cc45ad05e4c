//! Publishes messages, pipelined.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::message::PublishMessage;
use bytes::Bytes;
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};

use crate::{Bus, BusError};

/// An outgoing message, in an outbox row or on its way to the bus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outgoing {
    #[serde(rename = "s")]
    pub subject: String,
    /// JSON.
    #[serde(rename = "b")]
    pub body: String,
    /// Each header costs client and server, so there should be few.
    #[serde(rename = "h", default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
}

impl Outgoing {
    /// A message without headers.
    ///
    /// # Errors
    /// The body cannot be serialized.
    pub fn json<T: Serialize>(subject: String, body: &T) -> Result<Self, serde_json::Error> {
        Ok(Self {
            subject,
            body: serde_json::to_string(body)?,
            headers: Vec::new(),
        })
    }

    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    fn to_publish(&self) -> (String, PublishMessage) {
        let mut message = PublishMessage::build().payload(Bytes::from(self.body.clone()));
        if !self.headers.is_empty() {
            let mut headers = HeaderMap::new();
            for (name, value) in &self.headers {
                headers.insert(name.as_str(), value.as_str());
            }
            message = message.headers(headers);
        }
        (self.subject.clone(), message)
    }
}

impl Bus {
    /// Stores messages in their streams. After an error some of them may be stored: receivers handle a second
    /// delivery.
    ///
    /// # Errors
    /// [`BusError::Publish`]: a message was not stored.
    pub async fn publish_all(&self, messages: Vec<Outgoing>) -> Result<(), BusError> {
        self.publish_each(&messages).await.into_iter().collect()
    }

    /// Stores messages in their streams and returns a result for each. A message with an error may be
    /// stored all the same: receivers handle a second delivery.
    pub async fn publish_each(&self, messages: &[Outgoing]) -> Vec<Result<(), BusError>> {
        let mut acks = Vec::with_capacity(messages.len());
        for message in messages {
            let (subject, message) = message.to_publish();
            let sent = self.jetstream.send_publish(subject, message).await;
            acks.push(async {
                sent?.await?;
                Ok(())
            });
        }
        join_all(acks).await
    }

    /// Sends a core message; it may be lost.
    ///
    /// # Errors
    /// [`BusError::Send`]: the connection is closed.
    pub async fn send(&self, subject: String, body: Bytes) -> Result<(), BusError> {
        Ok(self.client.publish(subject, body).await?)
    }

    /// Waits until the server has received everything that was sent, at most for `within`.
    pub async fn flush(&self, within: Duration) {
        if tokio::time::timeout(within, self.client.flush())
            .await
            .is_err()
        {
            tracing::warn!("flush not finished in time; sent messages may be lost");
        }
    }
}
