//! Queues of steps: one durable consumer a queue. The executor makes them, workers take from them.
//!
//! A worker must not make one: a consumer's settings name a subject that the server delivers to.

use std::collections::BTreeSet;
use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::consumer::{Consumer, pull};
use async_nats::jetstream::stream::{ConsumerError, ConsumerErrorKind};
use futures_util::TryStreamExt;
use holdpoint_contracts::subject;

use crate::{Bus, BusError, StreamUse};

/// How long a delivered step may stay without an ack or a sign of progress.
pub const STEPS_ACK_WAIT: Duration = Duration::from_secs(2);

impl Bus {
    /// Makes the consumer of a queue of steps, or finds it.
    ///
    /// # Errors
    /// [`BusError::Consumer`] when the server refuses.
    pub async fn provide_queue(&self, queue: &str) -> Result<(), BusError> {
        let name = subject::steps_consumer(queue);
        let filter = subject::steps_queue_filter(queue);
        self.consumer(StreamUse::Steps, &name, &filter, STEPS_ACK_WAIT)
            .await
            .map(drop)
    }

    /// The consumer of a queue of steps.
    ///
    /// # Errors
    /// [`BusError::NoQueue`] when there is none yet, [`BusError::Consumer`] when the server refuses.
    pub async fn queue(&self, queue: &str) -> Result<Consumer<pull::Config>, BusError> {
        let consumer = subject::steps_consumer(queue);
        let found = self
            .jetstream
            .get_consumer_from_stream(&consumer, subject::STEPS)
            .await;
        found.map_err(|source| {
            if is_missing(&source) {
                return BusError::NoQueue {
                    queue: queue.to_owned(),
                };
            }
            BusError::Consumer {
                stream: subject::STEPS.to_owned(),
                consumer,
                source,
            }
        })
    }

    /// The names of all consumers of steps.
    ///
    /// # Errors
    /// [`BusError::Look`] when the stream is not there, or the server does not answer.
    pub async fn steps_consumers(&self) -> Result<BTreeSet<String>, BusError> {
        let look = |reason: String| BusError::Look {
            stream: subject::STEPS.to_owned(),
            reason,
        };
        let stream = self
            .jetstream
            .get_stream_no_info(subject::STEPS)
            .await
            .map_err(|error| look(error.to_string()))?;
        let names = stream.consumer_names().try_collect().await;
        names.map_err(|error| look(error.to_string()))
    }
}

/// Whether the consumer, or its whole stream, is not there.
fn is_missing(error: &ConsumerError) -> bool {
    let ConsumerErrorKind::JetStream(told) = error.kind() else {
        return false;
    };
    [ErrorCode::CONSUMER_NOT_FOUND, ErrorCode::STREAM_NOT_FOUND].contains(&told.error_code())
}
