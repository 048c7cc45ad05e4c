//! How the replicas of a service share its commands: one durable consumer a partition, pinned to one
//! of them, so that an aggregate's commands come to one replica as long as it lives. The pin is a
//! preference and no lock: version guards settle what two replicas decide at once.

use std::time::Duration;

use async_nats::jetstream::consumer::{PriorityPolicy, pull};
use futures_util::TryStreamExt;
use holdpoint_contracts::subject;
use holdpoint_ids::PARTITIONS;

use crate::streams::ACK_PENDING_MAX;
use crate::{Bus, BusError, PULL_HEARTBEAT, StreamUse};

/// The one group that a pinned consumer needs.
const GROUP: &str = "replicas";

/// How long a partition waits for a replica that pulls no more until another one gets it.
const PIN_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a pinned pull stays open: well below [`PIN_TIMEOUT`], or the pin is lost between pulls.
const PINNED_EXPIRES: Duration = Duration::from_secs(5);

/// Who takes a service's commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// One process takes all.
    All,
    /// One partition, for the replica that it is pinned to.
    Partition(u32),
}

impl Share {
    /// What there is to take for a service that runs as one process, or as replicas.
    #[must_use]
    pub fn of(is_exclusive: bool) -> Vec<Self> {
        match is_exclusive {
            true => vec![Self::All],
            false => (0..PARTITIONS).map(Self::Partition).collect(),
        }
    }

    fn consumer(self, service: &str) -> String {
        match self {
            Self::All => service.to_owned(),
            Self::Partition(partition) => format!("{service}-p{partition}"),
        }
    }

    fn filter(self, service: &str) -> String {
        match self {
            Self::All => subject::commands_filter(service),
            Self::Partition(partition) => subject::partition_filter(service, partition),
        }
    }
}

impl Bus {
    /// Removes the consumers of the other way to share: a work queue forbids overlapping filters. The
    /// stream keeps their messages, and what they had delivered comes again.
    ///
    /// # Errors
    /// [`BusError::Look`] when the server does not answer or refuses.
    pub async fn remove_other_shares(
        &self,
        service: &str,
        is_ours: &[Share],
    ) -> Result<(), BusError> {
        let stream = subject::commands_stream(service);
        let look = |reason: String| BusError::Look {
            stream: stream.clone(),
            reason,
        };
        let handle = self
            .jetstream
            .get_stream_no_info(&stream)
            .await
            .map_err(|error| look(error.to_string()))?;
        let names: Vec<String> = handle
            .consumer_names()
            .try_collect()
            .await
            .map_err(|error| look(error.to_string()))?;
        let others = [true, false].into_iter().flat_map(Share::of);
        let others = others.filter(|share| !is_ours.contains(share));
        for name in others.map(|share| share.consumer(service)) {
            if names.contains(&name) {
                tracing::info!(
                    stream,
                    consumer = name,
                    "removed: its service runs in another shape"
                );
                handle
                    .delete_consumer(&name)
                    .await
                    .map_err(|error| look(error.to_string()))?;
            }
        }
        Ok(())
    }

    /// Makes the durable consumer of a share of a service's commands (or finds it) and opens a stream
    /// of its messages.
    ///
    /// # Errors
    /// As [`Bus::pull`].
    pub async fn pull_commands(
        &self,
        service: &str,
        share: Share,
        ack_wait: Duration,
    ) -> Result<pull::Stream, BusError> {
        let (name, filter) = (share.consumer(service), share.filter(service));
        let wanted = StreamUse::Commands(service);
        if share == Share::All {
            return self.pull(wanted, &name, &filter, ack_wait).await;
        }
        let stream = subject::commands_stream(service);
        let config = pull::Config {
            durable_name: Some(name.clone()),
            filter_subject: filter,
            ack_wait,
            max_ack_pending: ACK_PENDING_MAX,
            priority_policy: PriorityPolicy::PinnedClient,
            priority_groups: vec![GROUP.to_owned()],
            priority_timeout: PIN_TIMEOUT,
            ..pull::Config::default()
        };
        self.jetstream
            .create_consumer_on_stream(config, stream.as_str())
            .await
            .map_err(|source| BusError::Consumer {
                stream,
                consumer: name.clone(),
                source,
            })?
            .stream()
            .group(GROUP)
            .heartbeat(PULL_HEARTBEAT)
            .expires(PINNED_EXPIRES)
            .max_messages_per_batch(1_000)
            .messages()
            .await
            .map_err(|error| BusError::Pull {
                consumer: name,
                reason: error.to_string(),
            })
    }
}
