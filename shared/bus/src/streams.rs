//! Streams and durable consumers, with their settings.

use std::fmt::Display;
use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::consumer;
use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::context::{
    ConsumerInfoErrorKind, CreateStreamError, CreateStreamErrorKind, GetStreamError,
    GetStreamErrorKind,
};
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType, Stream};
use futures_util::StreamExt;
use holdpoint_contracts::subject;

use crate::{Bus, BusError, PULL_EXPIRES, PULL_HEARTBEAT};

/// Short, because dedupe windows cost the server memory, and our rows already detect duplicates.
const DEDUPE_WINDOW: Duration = Duration::from_secs(2);

/// Unacked deliveries of one consumer.
pub(crate) const ACK_PENDING_MAX: i64 = 20_000;

/// How long a work queue keeps a message that is not received. Senders resend from their rows, so that an
/// outage of days does not fill the disk with repetitions.
pub const KEPT_FOR: Duration = Duration::from_secs(3_600);

/// Bytes of one service's commands. Beyond it the server refuses new ones: their senders keep them, and no
/// stored one is lost.
pub const COMMANDS_BYTES_MAX: i64 = 1 << 30;

/// Bytes of step dispatches. Beyond it the server drops the oldest, and the executor dispatches them again
/// from its rows. A tool without a worker therefore does not block others.
pub const STEPS_BYTES_MAX: i64 = 2 << 30;

/// The server's value for no limit.
const UNBOUNDED: i64 = -1;

/// The use of a stream, which determines its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamUse<'a> {
    /// Commands of the named service.
    Commands(&'a str),
    /// Dispatches of steps.
    Steps,
    /// Schedules of timer buckets, and due buckets.
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
            max_age: KEPT_FOR,
            ..Config::default()
        };
        match self {
            Self::Commands(service) => Config {
                max_bytes: COMMANDS_BYTES_MAX,
                discard: DiscardPolicy::New,
                ..work_queue(
                    subject::commands_stream(service),
                    subject::commands_filter(service),
                )
            },
            Self::Steps => Config {
                max_bytes: STEPS_BYTES_MAX,
                discard: DiscardPolicy::Old,
                ..work_queue(subject::STEPS.into(), subject::STEPS_FILTER.into())
            },
            // A limit of age or bytes would drop schedules before they fire. The number of buckets is the
            // limit: one per second and shard within the horizon.
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

/// The unfinished messages of a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backlog {
    pub pending: u64,
    /// Delivered and not yet acked.
    pub unacked: u64,
}

impl Backlog {
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.pending == 0 && self.unacked == 0
    }
}

/// The present settings of a stream, updated with ours. Removes settings that could copy messages to other
/// subjects or disable acks.
fn merge_settings(present: &Config, ours: Config) -> Config {
    Config {
        subjects: ours.subjects,
        max_age: ours.max_age,
        max_bytes: if present.max_bytes > 0 {
            present.max_bytes
        } else {
            ours.max_bytes
        },
        discard: ours.discard,
        duplicate_window: ours.duplicate_window,
        allow_message_schedules: ours.allow_message_schedules,
        allow_message_ttl: ours.allow_message_ttl,
        allow_rollup: ours.allow_rollup,
        no_ack: false,
        republish: None,
        mirror: None,
        sources: None,
        subject_transform: None,
        ..present.clone()
    }
}

pub(crate) fn read_error(stream: &str, error: &dyn Display) -> BusError {
    BusError::Read {
        stream: stream.to_owned(),
        reason: error.to_string(),
    }
}

fn is_missing(error: &GetStreamError) -> bool {
    let GetStreamErrorKind::JetStream(error) = error.kind() else {
        return false;
    };
    error.error_code() == ErrorCode::STREAM_NOT_FOUND
}

/// Whether the server cannot reserve the limit of bytes.
fn is_out_of_storage(error: &CreateStreamError) -> bool {
    let CreateStreamErrorKind::JetStream(error) = error.kind() else {
        return false;
    };
    [
        ErrorCode::STORAGE_RESOURCES_EXCEEDED,
        ErrorCode::INSUFFICIENT_RESOURCES,
    ]
    .contains(&error.error_code())
}

/// Removes the limit of bytes. The server's `max_file_store` still limits all streams together.
fn without_byte_limit(config: Config) -> Config {
    tracing::info!(
        stream = config.name,
        bytes = config.max_bytes,
        "server cannot reserve the bytes of the stream; the server's own limit applies"
    );
    Config {
        max_bytes: UNBOUNDED,
        ..config
    }
}

impl Bus {
    /// Creates a stream that the caller's service owns, or updates its settings. Settings of an operator stay:
    /// copies in a cluster (without [`Access::replicas`](crate::Access)), placement and bytes.
    ///
    /// # Errors
    /// [`BusError::Stream`]: the server refuses.
    pub async fn provide_stream(&self, wanted: StreamUse<'_>) -> Result<(), BusError> {
        // Boxed because stream settings make the future large.
        Box::pin(self.create_or_update(wanted.config())).await
    }

    async fn create_or_update(&self, mut ours: Config) -> Result<(), BusError> {
        ours.num_replicas = self.replicas.unwrap_or(ours.num_replicas);
        let stream = ours.name.clone();
        let done = match self.settings(&stream).await? {
            None => self.create(ours).await,
            Some(present) => {
                let mut next = merge_settings(&present, ours);
                next.num_replicas = self.replicas.unwrap_or(present.num_replicas);
                if next == present {
                    return Ok(());
                }
                self.update(next).await
            }
        };
        done.map_err(|source| BusError::Stream { stream, source })
    }

    /// A stream whose state is not read.
    pub(crate) async fn open_stream(&self, stream: &str) -> Result<Stream<()>, BusError> {
        let opened = self.jetstream.get_stream_no_info(stream).await;
        opened.map_err(|error| read_error(stream, &error))
    }

    /// The present settings of a stream. `None`: it does not exist.
    async fn settings(&self, stream: &str) -> Result<Option<Config>, BusError> {
        match self.jetstream.get_stream(stream).await {
            Ok(found) => Ok(Some(found.cached_info().config.clone())),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(read_error(stream, &error)),
        }
    }

    async fn create(&self, config: Config) -> Result<(), CreateStreamError> {
        match self.jetstream.create_stream(config.clone()).await {
            Err(error) if is_out_of_storage(&error) => {
                self.jetstream
                    .create_stream(without_byte_limit(config))
                    .await?;
                Ok(())
            }
            created => created.map(drop),
        }
    }

    async fn update(&self, config: Config) -> Result<(), CreateStreamError> {
        match self.jetstream.update_stream(&config).await {
            Err(error) if is_out_of_storage(&error) => {
                self.jetstream
                    .update_stream(&without_byte_limit(config))
                    .await?;
                Ok(())
            }
            updated => updated.map(drop),
        }
    }

    /// Creates a durable pull consumer if it does not exist, and opens a stream of its messages.
    ///
    /// # Errors
    /// [`BusError::Consumer`]: the server refuses. [`BusError::Pull`]: the consumer cannot be read.
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

    /// Creates a durable pull consumer if it does not exist.
    ///
    /// # Errors
    /// [`BusError::Consumer`]: the server refuses.
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
        self.create_consumer(stream, config).await
    }

    pub(crate) async fn create_consumer(
        &self,
        stream: String,
        config: pull::Config,
    ) -> Result<consumer::Consumer<pull::Config>, BusError> {
        let consumer = config.durable_name.clone().unwrap_or_default();
        self.jetstream
            .create_consumer_on_stream(config, stream.as_str())
            .await
            .map_err(|source| BusError::Consumer {
                stream,
                consumer,
                source,
            })
    }

    /// The unfinished messages of a consumer.
    ///
    /// # Errors
    /// [`BusError::Read`]: the server does not answer.
    pub async fn backlog(&self, wanted: StreamUse<'_>, name: &str) -> Result<Backlog, BusError> {
        let stream = wanted.name();
        match self.open_stream(&stream).await?.consumer_info(name).await {
            Ok(info) => Ok(Backlog {
                pending: info.num_pending,
                unacked: info.num_ack_pending as u64,
            }),
            Err(error) if error.kind() == ConsumerInfoErrorKind::NotFound => Ok(Backlog {
                pending: 0,
                unacked: 0,
            }),
            Err(error) => Err(read_error(&stream, &error)),
        }
    }

    /// The number of messages that are delivered or wait for an existing consumer. Messages without a
    /// consumer are not counted.
    ///
    /// # Errors
    /// [`BusError::Read`]: the server does not answer.
    pub async fn taken(&self, wanted: StreamUse<'_>) -> Result<u64, BusError> {
        let stream = wanted.name();
        let mut consumers = self.open_stream(&stream).await?.consumers();
        let mut taken = 0;
        while let Some(consumer) = consumers.next().await {
            let info = consumer.map_err(|error| read_error(&stream, &error))?;
            taken += info.num_pending + info.num_ack_pending as u64;
        }
        Ok(taken)
    }

    /// The number of messages in a stream. In a work queue these are the unacked ones.
    ///
    /// # Errors
    /// [`BusError::Read`]: the server does not answer.
    pub async fn stored(&self, wanted: StreamUse<'_>) -> Result<u64, BusError> {
        let name = wanted.name();
        let stream = self.jetstream.get_stream(&name).await;
        let stream = stream.map_err(|error| read_error(&name, &error))?;
        Ok(stream.cached_info().state.messages)
    }
}
