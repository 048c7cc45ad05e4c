//! The bus: connection, streams and durable consumers, requests, publishing.
//!
//! The bus carries desired states and facts and may lose them; nothing here decides or stores anything.
//! Services take from it through `holdpoint-kernel`, workers through `holdpoint-worker`.

mod address;
mod connection;
mod error;
mod partitions;
mod publish;
mod queues;
mod request;
pub mod server;
mod streams;

use std::time::Duration;

use async_nats::{Client, jetstream};
use futures_util::{Stream, StreamExt};
use holdpoint_contracts::subject;
use holdpoint_ids::Workspace;
use serde::de::DeserializeOwned;

pub use address::without_credentials;
pub use connection::Access;
pub use error::BusError;
pub use partitions::Share;
pub use publish::Outgoing;
pub use queues::STEPS_ACK_WAIT;
pub use streams::{Backlog, COMMANDS_BYTES_MAX, KEPT_FOR, STEPS_BYTES_MAX, StreamUse};

/// How long a core request waits for its answer. The owner answers after its commit.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Idle heartbeat of every pull: a lost pull is noticed within twice this time.
pub const PULL_HEARTBEAT: Duration = Duration::from_secs(2);

/// How long one pull stays open at the server.
pub const PULL_EXPIRES: Duration = Duration::from_secs(30);

/// A connection to the bus. Cheap to clone; all clones share the connection.
#[derive(Debug, Clone)]
pub struct Bus {
    client: Client,
    jetstream: jetstream::Context,
    /// Copies of each stream in a cluster; none: as the server has them.
    replicas: Option<usize>,
}

impl Bus {
    /// Connects, and keeps connecting again whenever the server was away. The address may carry a key
    /// (`nats://KEY@host:4222`), as that of a running `up` does.
    ///
    /// # Errors
    /// [`BusError::Address`] and [`BusError::Connect`], when the server cannot be reached at all.
    pub async fn connect(url: &str, name: &str) -> Result<Self, BusError> {
        Self::connect_with(url, name, &Access::default()).await
    }

    /// The same with what the server asks of its clients.
    ///
    /// # Errors
    /// [`BusError::Access`] when a key or file cannot be used, [`BusError::Connect`] when the server cannot
    /// be reached, or does not know the key.
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

    /// Whether the connection stands at this moment.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == async_nats::connection::State::Connected
    }

    /// The client below, for subscriptions.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The largest body the server takes, in bytes.
    #[must_use]
    pub fn max_payload(&self) -> usize {
        self.client.server_info().max_payload
    }

    /// Core nudges of one service: what has changed there. They may be lost.
    ///
    /// # Errors
    /// [`BusError::Subscribe`] when the connection is closed.
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
                .inspect_err(|error| tracing::warn!(%error, "a nudge that cannot be read"))
                .ok()
        })))
    }
}
