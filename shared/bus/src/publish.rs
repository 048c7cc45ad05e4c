//! Publishing, in batches and pipelined.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::message::PublishMessage;
use bytes::Bytes;
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};

use crate::{Bus, BusError};

/// One message on its way out: what the outbox row keeps and the publisher sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outgoing {
    #[serde(rename = "s")]
    pub subject: String,
    /// JSON.
    #[serde(rename = "b")]
    pub body: String,
    /// Headers, if any; few, for each costs both sides.
    #[serde(rename = "h", default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
}

impl Outgoing {
    /// A message without headers.
    ///
    /// # Errors
    /// When the body cannot be written as JSON.
    pub fn json<T: Serialize>(subject: String, body: &T) -> Result<Self, serde_json::Error> {
        Ok(Self {
            subject,
            body: serde_json::to_string(body)?,
            headers: Vec::new(),
        })
    }

    /// The same with one header more.
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
    /// Stores messages in their streams; returns when all are stored. Publishing is pipelined, so
    /// after an error some may be stored: receivers survive a second delivery.
    ///
    /// # Errors
    /// [`BusError::Publish`] when one was not stored.
    pub async fn publish_all(&self, messages: Vec<Outgoing>) -> Result<(), BusError> {
        self.publish_each(&messages).await.into_iter().collect()
    }

    /// Stores messages in their streams, pipelined, and tells of each whether it was stored. One of
    /// which that is not known may be stored all the same: receivers survive a second delivery.
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
    /// [`BusError::Send`] when the connection is closed.
    pub async fn send(&self, subject: String, body: Bytes) -> Result<(), BusError> {
        Ok(self.client.publish(subject, body).await?)
    }

    /// Hands everything that was sent to the server; bounded by `within`.
    pub async fn flush(&self, within: Duration) {
        if tokio::time::timeout(within, self.client.flush())
            .await
            .is_err()
        {
            tracing::warn!("the bus took no flush in time");
        }
    }
}
