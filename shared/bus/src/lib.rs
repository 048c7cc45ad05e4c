//! The bus: connection, streams and durable consumers, requests, publishing.
//!
//! The bus may lose messages. Nothing here decides or stores anything. Services receive through
//! `holdpoint-kernel`, workers through `holdpoint-worker`.

mod address;
mod connection;
mod error;
mod partitions;
mod publish;
mod queues;
mod request;
pub mod server;
mod streams;
mod waiters;

use std::time::Duration;

use async_nats::{Client, jetstream};
use futures_util::{Stream, StreamExt};
use holdpoint_contracts::subject;
use holdpoint_ids::Workspace;
use serde::de::DeserializeOwned;

pub use address::without_credentials;
pub use connection::{Access, REQUEST_TIMEOUT};
pub use error::BusError;
pub use partitions::PartitionShare;
pub use publish::Outgoing;
pub use queues::STEPS_ACK_WAIT;
pub use streams::{Backlog, COMMANDS_BYTES_MAX, KEPT_FOR, STEPS_BYTES_MAX, StreamUse};
pub use waiters::{Changes, Waiters};

/// Idle heartbeat of every pull. A lost pull is noticed within twice this time.
pub const PULL_HEARTBEAT: Duration = Duration::from_secs(2);

/// How long the server keeps one pull open.
pub const PULL_EXPIRES: Duration = Duration::from_secs(30);

/// A connection to the bus. Cheap to clone; all clones share the connection.
#[derive(Debug, Clone)]
pub struct Bus {
    client: Client,
    jetstream: jetstream::Context,
    /// Copies of each stream in a cluster. `None`: as configured at the server.
    replicas: Option<usize>,
}

impl Bus {
    /// Connects, and reconnects after every outage. The address may contain a key (`nats://KEY@host:4222`).
    ///
    /// # Errors
    /// [`BusError::Address`]; [`BusError::Connect`]: the server cannot be reached.
    pub async fn connect(url: &str, name: &str) -> Result<Self, BusError> {
        Self::connect_with(url, name, &Access::default()).await
    }

    /// Connects with credentials.
    ///
    /// # Errors
    /// [`BusError::Access`]: a key or file is invalid. [`BusError::Connect`]: the server cannot be reached
    /// or rejects the key.
    pub async fn connect_with(url: &str, name: &str, access: &Access) -> Result<Self, BusError> {
        let client = connection::open(url, name, access).await?;
        let jetstream = jetstream::context::ContextBuilder::new()
            .timeout(Duration::from_secs(5))
            .ack_timeout(Duration::from_secs(5))
            .max_ack_inflight(20_000)
            .build(client.clone());
        Ok(Self {
            client,
            jetstream,
            replicas: access.replicas,
        })
    }

    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == async_nats::connection::State::Connected
    }

    /// The NATS client, for subscriptions.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The largest body that the server accepts, in bytes.
    #[must_use]
    pub fn max_payload(&self) -> usize {
        self.client.server_info().max_payload
    }

    /// Subscribes to nudges of one service. They may be lost.
    ///
    /// # Errors
    /// [`BusError::Subscribe`]: the connection is closed.
    pub async fn live<N: DeserializeOwned + Send + 'static>(
        &self,
        workspace: &Workspace,
        service: &str,
    ) -> Result<impl Stream<Item = N> + Send + Unpin + use<N>, BusError> {
        let subscription = self
            .client
            .subscribe(subject::live(workspace, service))
            .await?;
        Ok(Box::pin(subscription.filter_map(|message| async move {
            serde_json::from_slice(&message.payload)
                .inspect_err(|error| tracing::warn!(%error, "nudge cannot be read and is ignored"))
                .ok()
        })))
    }
}
