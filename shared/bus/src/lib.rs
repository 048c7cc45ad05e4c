//! The bus: connection, streams and durable consumers, requests, publishing.
//!
//! The bus carries wishes and facts and may lose them; nothing here decides or stores anything.
//! Services take from it through `holdpoint-kernel`, workers through `holdpoint-worker`.

mod address;
mod error;
mod partitions;
mod publish;
mod request;
pub mod server;
mod streams;

use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event, ServerAddr, jetstream};
use futures_util::{Stream, StreamExt};
use holdpoint_contracts::subject;
use holdpoint_ids::Workspace;
use serde::de::DeserializeOwned;

use crate::address::Credentials;

pub use address::without_credentials;
pub use error::BusError;
pub use partitions::Share;
pub use publish::Outgoing;
pub use streams::{Backlog, StreamUse};

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
}

impl Bus {
    /// Connects, and keeps connecting again whenever the server was away. The address may carry a key
    /// (`nats://KEY@host:4222`), as that of a running `up` does.
    ///
    /// # Errors
    /// [`BusError::Address`] and [`BusError::Connect`], when the server cannot be reached at all.
    pub async fn connect(url: &str, name: &str) -> Result<Self, BusError> {
        Self::connect_as(url, name, None).await
    }

    /// The same with the seed of an nkey, where the server wants to know who it is
    /// (`holdpoint nats-config`).
    ///
    /// # Errors
    /// [`BusError::Connect`] when the server cannot be reached, or does not know the key.
    pub async fn connect_as(url: &str, name: &str, seed: Option<&str>) -> Result<Self, BusError> {
        let who = name.to_owned();
        let (servers, credentials) = address::split(url);
        let options = match seed {
            Some(seed) => ConnectOptions::with_nkey(seed.to_owned()),
            None => ConnectOptions::new(),
        };
        let options = match credentials {
            Some(Credentials::Token(token)) => options.token(token),
            Some(Credentials::Password { user, password }) => {
                options.user_and_password(user, password)
            }
            None => options,
        };
        let addresses = servers.iter().map(|server| server.parse::<ServerAddr>());
        let addresses: Vec<_> =
            addresses
                .collect::<Result<_, _>>()
                .map_err(|source| BusError::Address {
                    url: servers.join(","),
                    source,
                })?;
        let client = options
            .name(name)
            // Inboxes of one's own, so that permissions can keep others from listening.
            .custom_inbox_prefix(format!("_INBOX.{name}"))
            .request_timeout(Some(REQUEST_TIMEOUT))
            .event_callback(move |event| {
                let who = who.clone();
                async move { report(&who, &event) }
            })
            .connect(addresses)
            .await
            .map_err(|source| BusError::Connect {
                url: servers.join(","),
                source,
            })?;
        let jetstream = jetstream::context::ContextBuilder::new()
            .timeout(Duration::from_secs(5))
            .ack_timeout(Duration::from_secs(5))
            .max_ack_inflight(20_000)
            .build(client.clone());
        Ok(Self { client, jetstream })
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

/// Refused permissions and slow consumers show up only here, never as the error of a call.
fn report(who: &str, event: &Event) {
    match event {
        Event::Connected => tracing::debug!(who, "connected to the bus"),
        Event::Disconnected => tracing::warn!(who, "the bus is away; trying again"),
        Event::LameDuckMode | Event::Draining | Event::Closed => {
            tracing::debug!(who, %event, "bus connection");
        }
        Event::SlowConsumer(_) | Event::ServerError(_) | Event::ClientError(_) => {
            tracing::error!(who, %event, "bus connection");
        }
    }
}
