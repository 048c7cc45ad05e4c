//! Streams and durable consumers: which there are, with which settings.

use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::consumer;
use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::context::{
    ConsumerInfoErrorKind, CreateStreamError, CreateStreamErrorKind, GetStreamError,
    GetStreamErrorKind,
};
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use futures_util::StreamExt;
use holdpoint_contracts::subject;

use crate::{Bus, BusError, PULL_EXPIRES, PULL_HEARTBEAT};

/// Dedupe windows cost the server memory, and our own state does that work.
const DEDUPE_WINDOW: Duration = Duration::from_secs(2);

/// Messages of one consumer that may be with its readers without an ack.
pub(crate) const ACK_PENDING_MAX: i64 = 20_000;

/// How long a work queue keeps a message that is not taken. Rows are the truth: what they still want
/// is sent again, so that a service or a tool that is away for days fills no disk with repetitions.
pub const KEPT_FOR: Duration = Duration::from_secs(3_600);

/// Bytes that the commands of one service may take. At it the server refuses new ones: their senders keep
/// them, and none that was stored is lost.
pub const COMMANDS_BYTES_MAX: i64 = 1 << 30;

/// Bytes that dispatches of steps may take. At it the server drops the oldest, which the executor dispatches
/// again from its rows: a tool without a worker holds up no other.
pub const STEPS_BYTES_MAX: i64 = 2 << 30;

/// No bound, in a server's words.
const UNBOUNDED: i64 = -1;

/// What a stream is for; decides its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamUse<'a> {
    /// Commands of the named service.
    Commands(&'a str),
    /// Hand-outs of steps.
    Steps,
    /// Schedules of timers and what they fire.
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
            // Neither age nor bytes are bounded: that would drop schedules before they fire. It is bounded by
            // the number of its buckets, one a second and shard within the horizon.
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

/// Settings of a stream that is there, with ours put in. What could let the server copy messages to other
/// subjects, or stop it from confirming them, is taken out.
fn brought_up_to_date(there: &Config, ours: Config) -> Config {
    Config {
        subjects: ours.subjects,
        max_age: ours.max_age,
        max_bytes: match there.max_bytes > 0 {
            true => there.max_bytes,
            false => ours.max_bytes,
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
        ..there.clone()
    }
}

fn is_missing(error: &GetStreamError) -> bool {
    let GetStreamErrorKind::JetStream(told) = error.kind() else {
        return false;
    };
    told.error_code() == ErrorCode::STREAM_NOT_FOUND
}

/// Bounds on bytes are reserved, and this server has less to give.
fn is_no_room(error: &CreateStreamError) -> bool {
    let CreateStreamErrorKind::JetStream(told) = error.kind() else {
        return false;
    };
    [
        ErrorCode::STORAGE_RESOURCES_EXCEEDED,
        ErrorCode::INSUFFICIENT_RESOURCES,
    ]
    .contains(&told.error_code())
}

/// The same without a bound on bytes of its own: the server's `max_file_store` bounds all streams.
fn unreserved(config: Config) -> Config {
    tracing::info!(
        stream = config.name,
        bytes = config.max_bytes,
        "the server has not so many bytes to give: its own limit bounds the stream"
    );
    Config {
        max_bytes: UNBOUNDED,
        ..config
    }
}

impl Bus {
    /// Makes a stream that the caller's service owns, or brings its settings up to date. What an operator
    /// has set stays: copies in a cluster (unless told otherwise), placement, fewer or more bytes.
    ///
    /// # Errors
    /// [`BusError::Stream`] when the server refuses.
    pub async fn provide_stream(&self, wanted: StreamUse<'_>) -> Result<(), BusError> {
        // Settings of streams are large, and few are looked at.
        Box::pin(self.bring_up_to_date(wanted.config())).await
    }

    async fn bring_up_to_date(&self, mut ours: Config) -> Result<(), BusError> {
        ours.num_replicas = self.replicas.unwrap_or(ours.num_replicas);
        let stream = ours.name.clone();
        let made = match self.settings(&stream).await? {
            None => self.make(ours).await,
            Some(there) => {
                let mut next = brought_up_to_date(&there, ours);
                next.num_replicas = self.replicas.unwrap_or(there.num_replicas);
                match next == there {
                    true => Ok(()),
                    false => self.change(next).await,
                }
            }
        };
        made.map_err(|source| BusError::Stream { stream, source })
    }

    /// The settings of a stream as the server has them; none: there is no such stream.
    async fn settings(&self, stream: &str) -> Result<Option<Config>, BusError> {
        match self.jetstream.get_stream(stream).await {
            Ok(found) => Ok(Some(found.cached_info().config.clone())),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(BusError::Look {
                stream: stream.to_owned(),
                reason: error.to_string(),
            }),
        }
    }

    async fn make(&self, config: Config) -> Result<(), CreateStreamError> {
        match self.jetstream.create_stream(config.clone()).await {
            Err(error) if is_no_room(&error) => {
                self.jetstream.create_stream(unreserved(config)).await?;
                Ok(())
            }
            made => made.map(drop),
        }
    }

    async fn change(&self, config: Config) -> Result<(), CreateStreamError> {
        match self.jetstream.update_stream(&config).await {
            Err(error) if is_no_room(&error) => {
                self.jetstream.update_stream(&unreserved(config)).await?;
                Ok(())
            }
            changed => changed.map(drop),
        }
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
