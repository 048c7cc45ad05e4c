//! Queues of steps: one durable consumer for each lane of a queue. The executor creates them, and workers receive from them.
//!
//! A worker must not create one: a consumer's settings contain a subject to which the server delivers.

use std::collections::BTreeSet;
use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::consumer::{Consumer, pull};
use async_nats::jetstream::stream::{ConsumerError, ConsumerErrorKind};
use futures_util::TryStreamExt;
use holdpoint_contracts::subject::{self, Lane};

use crate::streams::read_error;
use crate::{Bus, BusError, StreamUse};

/// How long a delivered step may stay without an ack or a progress ack.
pub const STEPS_ACK_WAIT: Duration = Duration::from_secs(2);

impl Bus {
    /// Creates the consumer of a lane of a queue if it does not exist.
    ///
    /// # Errors
    /// [`BusError::Consumer`]: the server refuses.
    pub async fn provide_queue(&self, queue: &str, lane: Lane) -> Result<(), BusError> {
        let name = subject::steps_consumer(queue, lane);
        let filter = subject::steps_queue_filter(queue, lane);
        self.consumer(StreamUse::Steps, &name, &filter, STEPS_ACK_WAIT)
            .await
            .map(drop)
    }

    /// The consumer of a lane of a queue.
    ///
    /// # Errors
    /// [`BusError::NoQueue`]: it does not exist yet. [`BusError::Consumer`]: the server refuses.
    pub async fn queue(&self, queue: &str, lane: Lane) -> Result<Consumer<pull::Config>, BusError> {
        let consumer = subject::steps_consumer(queue, lane);
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
    /// [`BusError::Read`]: the stream does not exist, or the server does not answer.
    pub async fn steps_consumers(&self) -> Result<BTreeSet<String>, BusError> {
        let stream = self.open_stream(subject::STEPS).await?;
        let names = stream.consumer_names().try_collect().await;
        names.map_err(|error| read_error(subject::STEPS, &error))
    }
}

/// Whether the consumer or its stream does not exist.
fn is_missing(error: &ConsumerError) -> bool {
    let ConsumerErrorKind::JetStream(error) = error.kind() else {
        return false;
    };
    [ErrorCode::CONSUMER_NOT_FOUND, ErrorCode::STREAM_NOT_FOUND].contains(&error.error_code())
}
