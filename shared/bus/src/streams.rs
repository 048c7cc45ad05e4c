//! Streams and durable consumers: which there are, with which settings.

use std::time::Duration;

use async_nats::jetstream::consumer;
use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::context::ConsumerInfoErrorKind;
use async_nats::jetstream::stream::{Config, RetentionPolicy, StorageType};
use futures_util::StreamExt;
use holdpoint_contracts::subject;

use crate::{Bus, BusError, PULL_EXPIRES, PULL_HEARTBEAT};

/// Dedupe windows cost the server memory, and our own state does that work.
const DEDUPE_WINDOW: Duration = Duration::from_secs(2);

/// Messages of one consumer that may be with its readers without an ack.
pub(crate) const ACK_PENDING_MAX: i64 = 20_000;

/// What a stream is for; decides its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamUse<'a> {
    /// Commands of the named service.
    Commands(&'a str),
    /// Hand-outs of steps.
    Steps,
    /// Schedules of alarms and what they fire.
    Timers,
}

impl StreamUse<'_> {
    fn config(self) -> Config {
        let work_queue = |name: String, filter: String| Config {
            name,
            subjects: vec![filter],
            retention: RetentionPolicy::WorkQueue,
            storage: StorageType::File,
            duplicate_window: DEDUPE_WINDOW,
            num_replicas: 1,
            ..Config::default()
        };
        match self {
            Self::Commands(service) => work_queue(
                subject::commands_stream(service),
                subject::commands_filter(service),
            ),
            Self::Steps => work_queue(subject::STEPS.into(), subject::STEPS_FILTER.into()),
            // Neither age nor bytes are bounded: that would drop schedules before they fire.
            Self::Timers => Config {
                name: subject::TIMERS.into(),
                subjects: subject::TIMERS_FILTERS.map(str::to_owned).to_vec(),
                allow_message_schedules: true,
                allow_message_ttl: true,
                allow_rollup: true,
                duplicate_window: DEDUPE_WINDOW,
                num_replicas: 1,
                ..Config::default()
            },
        }
    }

    fn name(self) -> String {
        self.config().name
    }
}

/// What lies in a stream or with the readers of one of its consumers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backlog {
    /// Not yet delivered.
    pub pending: u64,
    /// Delivered and not yet acked.
    pub unacked: u64,
}

impl Backlog {
    /// Whether everything was handled.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.pending == 0 && self.unacked == 0
    }
}

impl Bus {
    /// Makes a stream, or brings its settings up to date.
    ///
    /// # Errors
    /// [`BusError::Stream`] when the server refuses.
    pub async fn provide_stream(&self, wanted: StreamUse<'_>) -> Result<(), BusError> {
        let config = wanted.config();
        let stream = config.name.clone();
        self.jetstream
            .create_or_update_stream(config)
            .await
            .map_err(|source| BusError::Stream { stream, source })?;
        Ok(())
    }

    /// Makes a durable pull consumer (or finds it) and opens a stream of its messages.
    ///
    /// # Errors
    /// [`BusError::Consumer`] when the server refuses, [`BusError::Pull`] when it cannot be read.
    pub async fn pull(
        &self,
        wanted: StreamUse<'_>,
        name: &str,
        filter: &str,
        ack_wait: Duration,
    ) -> Result<pull::Stream, BusError> {
        self.consumer(wanted, name, filter, ack_wait)
            .await?
            .stream()
            .heartbeat(PULL_HEARTBEAT)
            .expires(PULL_EXPIRES)
            .max_messages_per_batch(1_000)
            .messages()
            .await
            .map_err(|error| BusError::Pull {
                consumer: name.into(),
                reason: error.to_string(),
            })
    }

    /// Makes a durable pull consumer, or finds it.
    ///
    /// # Errors
    /// [`BusError::Consumer`] when the server refuses.
    pub async fn consumer(
        &self,
        wanted: StreamUse<'_>,
        name: &str,
        filter: &str,
        ack_wait: Duration,
    ) -> Result<consumer::Consumer<pull::Config>, BusError> {
        let stream = wanted.name();
        let config = pull::Config {
            durable_name: Some(name.to_owned()),
            filter_subject: filter.to_owned(),
            ack_wait,
            max_ack_pending: ACK_PENDING_MAX,
            ..pull::Config::default()
        };
        self.jetstream
            .create_consumer_on_stream(config, stream.as_str())
            .await
            .map_err(|source| BusError::Consumer {
                stream,
                consumer: name.to_owned(),
                source,
            })
    }

    /// How much of a consumer's work is left.
    ///
    /// # Errors
    /// [`BusError::Look`] when the server does not answer.
    pub async fn backlog(&self, wanted: StreamUse<'_>, name: &str) -> Result<Backlog, BusError> {
        let look = |reason: String| BusError::Look {
            stream: wanted.name(),
            reason,
        };
        let info = self
            .jetstream
            .get_stream_no_info(wanted.name())
            .await
            .map_err(|error| look(error.to_string()))?
            .consumer_info(name)
            .await;
        match info {
            Ok(info) => Ok(Backlog {
                pending: info.num_pending,
                unacked: info.num_ack_pending as u64,
            }),
            Err(error) if error.kind() == ConsumerInfoErrorKind::NotFound => Ok(Backlog {
                pending: 0,
                unacked: 0,
            }),
            Err(error) => Err(look(error.to_string())),
        }
    }

    /// How many messages of a work queue are on their way to somebody: delivered or waiting for a
    /// consumer that is there. Messages that no consumer takes are not counted.
    ///
    /// # Errors
    /// [`BusError::Look`] when the server does not answer.
    pub async fn taken(&self, wanted: StreamUse<'_>) -> Result<u64, BusError> {
        let look = |reason: String| BusError::Look {
            stream: wanted.name(),
            reason,
        };
        let stream = self
            .jetstream
            .get_stream_no_info(wanted.name())
            .await
            .map_err(|error| look(error.to_string()))?;
        let mut consumers = stream.consumers();
        let mut taken = 0;
        while let Some(consumer) = consumers.next().await {
            let info = consumer.map_err(|error| look(error.to_string()))?;
            taken += info.num_pending + info.num_ack_pending as u64;
        }
        Ok(taken)
    }

    /// How many messages a work queue holds: everything that was not acked.
    ///
    /// # Errors
    /// [`BusError::Look`] when the server does not answer.
    pub async fn stored(&self, wanted: StreamUse<'_>) -> Result<u64, BusError> {
        let look = |reason: String| BusError::Look {
            stream: wanted.name(),
            reason,
        };
        let stream = self
            .jetstream
            .get_stream(wanted.name())
            .await
            .map_err(|error| look(error.to_string()))?;
        Ok(stream.cached_info().state.messages)
    }
}
