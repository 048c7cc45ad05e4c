//! The replicas of a service share its commands. Each partition has a durable consumer that is pinned to one
//! replica, so that an aggregate's commands reach the same replica while it lives. The pin only improves speed:
//! row versions guarantee that one of two concurrent decisions wins.

use std::fmt::Display;
use std::time::Duration;

use async_nats::jetstream::consumer::{PriorityPolicy, pull};
use futures_util::TryStreamExt;
use holdpoint_contracts::subject;
use holdpoint_ids::PARTITIONS;

use crate::streams::{ACK_PENDING_MAX, read_error};
use crate::{Bus, BusError, PULL_HEARTBEAT, StreamUse};

const GROUP: &str = "replicas";

/// How long a partition waits for a silent replica before another one gets it.
const PIN_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a pinned pull stays open. Well below [`PIN_TIMEOUT`], because otherwise the pin is lost between
/// pulls.
const PINNED_EXPIRES: Duration = Duration::from_secs(5);

/// The part of a service's commands that a process receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionShare {
    /// One process receives all.
    All,
    /// One partition, for the replica that it is pinned to.
    Partition(u32),
}

impl PartitionShare {
    /// All shares of a service that runs as one process, or as replicas.
    #[must_use]
    pub fn of(is_exclusive: bool) -> Vec<Self> {
        if is_exclusive {
            vec![Self::All]
        } else {
            (0..PARTITIONS).map(Self::Partition).collect()
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
    /// Removes the consumers of the other mode, because a work queue forbids overlapping filters. The stream
    /// keeps their messages and redelivers unacked ones.
    ///
    /// # Errors
    /// [`BusError::Read`]: the server does not answer or refuses.
    pub async fn remove_other_shares(
        &self,
        service: &str,
        is_ours: &[PartitionShare],
    ) -> Result<(), BusError> {
        let stream = subject::commands_stream(service);
        let failed = |error: &dyn Display| read_error(&stream, error);
        let handle = self.open_stream(&stream).await?;
        let names: Vec<String> = handle
            .consumer_names()
            .try_collect()
            .await
            .map_err(|error| failed(&error))?;
        let others = [true, false].into_iter().flat_map(PartitionShare::of);
        let others = others.filter(|share| !is_ours.contains(share));
        for name in others.map(|share| share.consumer(service)) {
            if names.contains(&name) {
                tracing::info!(
                    stream,
                    consumer = name,
                    "consumer removed because the number of replicas has changed"
                );
                handle
                    .delete_consumer(&name)
                    .await
                    .map_err(|error| failed(&error))?;
            }
        }
        Ok(())
    }

    /// Creates the durable consumer of a share if it does not exist, and opens a stream of its messages.
    ///
    /// # Errors
    /// As [`Bus::pull`].
    pub async fn pull_commands(
        &self,
        service: &str,
        share: PartitionShare,
        ack_wait: Duration,
    ) -> Result<pull::Stream, BusError> {
        let (name, filter) = (share.consumer(service), share.filter(service));
        let wanted = StreamUse::Commands(service);
        if share == PartitionShare::All {
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
        self.create_consumer(stream, config)
            .await?
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
