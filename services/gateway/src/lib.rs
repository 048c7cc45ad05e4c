//! The gateway: HTTP, pages and live events at the edge, and the tokens and sessions that open it.
//!
//! It owns tokens, sessions, and commands that were accepted while their owner was down: it translates a
//! request into a command or a query, vouches for the caller, asks the owner over the bus, and
//! answers. It must never hold a rule of the domain, never read another
//! service's table, and never write a token into a log.

mod access;
mod answered;
mod app;
mod arrival;
mod assertions;
mod body;
mod caller;
mod concurrency;
mod connections;
mod forward;
mod owners;
mod pages;
mod params;
mod problem;
mod rights;
mod router;
mod routes;
mod sight;
mod sse;
mod store;
#[cfg(test)]
mod tests;
mod time_zones;
mod tls;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::future::BoxFuture;
use holdpoint_auth::{Keys, Signer};
use holdpoint_bus::Bus;
use holdpoint_clock::Clock;
use holdpoint_contracts::Problem;
use holdpoint_contracts::run::Page;
use holdpoint_ids::Workspace;
use holdpoint_store::{Location, StoreError};
use holdpoint_telemetry::Vital;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::app::{App, Tables};

/// Readers of the gateway's database: one statement a request.
const READERS: u32 = 4;

/// How long requests that are under way may take once the end was asked for.
const END_WAIT: Duration = Duration::from_secs(10);

/// A page of the mails that were kept as files instead of sent, newest last.
pub type Mails =
    Arc<dyn Fn(WantedMails) -> BoxFuture<'static, io::Result<Page<Value>>> + Send + Sync>;

/// Whether a mail is shown, by its workspace and its person.
pub type IsMailShown = Box<dyn Fn(Option<&str>, Option<&str>) -> bool + Send>;

/// Which mails a page has.
pub struct WantedMails {
    /// Whether one is shown.
    pub shown: IsMailShown,
    /// So many of those that are shown come before the page; a page's `next_cursor` is that of the next.
    pub skip: usize,
    /// So many are on it at most.
    pub limit: usize,
}

impl fmt::Debug for WantedMails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WantedMails")
            .field("skip", &self.skip)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// What services of the same process lack to do their work; empty: nothing.
pub type NotReady = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// What the gateway works with.
#[derive(Clone)]
pub struct Deps {
    /// Where commands and queries go.
    pub bus: Bus,
    /// The one source of time.
    pub clock: Clock,
    /// The gateway's own database.
    pub store: Location,
    /// Vouches for callers towards the owners of commands.
    pub signer: Arc<Signer>,
    /// Checks the tokens of steps.
    pub keys: Keys,
    /// Answers `GET /mails`; none: there is no such route.
    pub mails: Option<Mails>,
    /// What `/readyz` tells besides what the gateway finds itself.
    pub not_ready: Option<NotReady>,
}

impl fmt::Debug for Deps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deps")
            .field("mails", &self.mails.is_some())
            .finish_non_exhaustive()
    }
}

/// How the gateway is set up.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Where to listen; port 0 takes a free one.
    pub http: SocketAddr,
}

/// The gateway could not start.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The address is taken or not ours.
    #[error("cannot listen on {address}: give another --http")]
    Listen {
        /// What was asked for.
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    /// The database could not be opened or brought up to date.
    #[error("cannot open the gateway's database")]
    Store(#[from] StoreError),
    /// A workspace's owner could not be made, or a token of it.
    #[error("cannot make a token of the workspace's owner")]
    Owner(#[source] Problem),
}

/// A gateway that listens; connections are taken once [`Gateway::serve`] runs.
pub struct Gateway {
    address: SocketAddr,
    listener: TcpListener,
    router: Router,
    app: App,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// Brings the database up to date and binds the listener.
///
/// # Errors
/// [`GatewayError`] when the address is taken or the database cannot be used.
pub async fn start(deps: Deps, config: Config) -> Result<Gateway, GatewayError> {
    holdpoint_store::migrate::<holdpoint_migrations::gateway::Migrator>(&deps.store).await?;
    let writer = holdpoint_store::open_writer(&deps.store).await?;
    let readers = holdpoint_store::open_readers(&deps.store, READERS).await?;
    let listen = |source| GatewayError::Listen {
        address: config.http,
        source,
    };
    let listener = TcpListener::bind(config.http).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    if !address.ip().is_loopback() {
        tracing::warn!(
            %address,
            "other machines can reach this address, and HTTP on it is not encrypted: tokens and answers can \
             be read on the way; put a proxy with TLS before it"
        );
    }
    let closing = CancellationToken::new();
    let app = App::new(deps, Tables { readers, writer }, closing);
    Ok(Gateway {
        address,
        listener,
        router: router::router(app.clone()),
        app,
    })
}

impl Gateway {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes a token for the user `owner` of a workspace, and the user where there is none. It does
    /// not expire, and earlier ones stay valid as long as they are among the newest hundred; only
    /// its digest is stored, so it can be shown this once.
    ///
    /// # Errors
    /// [`GatewayError::Owner`] when it cannot be stored, or when the handoff service, which has
    /// the users, does not answer within fifteen seconds.
    pub async fn owner_token(&self, workspace: &Workspace) -> Result<String, GatewayError> {
        owners::token(&self.app, workspace, None)
            .await
            .map_err(GatewayError::Owner)
    }

    /// The owner's token from an earlier start, if it still opens the workspace; else a new one.
    ///
    /// # Errors
    /// As [`Gateway::owner_token`].
    pub async fn kept_owner_token(
        &self,
        workspace: &Workspace,
        kept: &str,
    ) -> Result<String, GatewayError> {
        owners::kept_token(&self.app, workspace, kept)
            .await
            .map_err(GatewayError::Owner)
    }

    /// Makes a token for the owner and revokes those that were made by [`Gateway::owner_token`] before.
    ///
    /// # Errors
    /// As [`Gateway::owner_token`].
    pub async fn replace_owner_token(&self, workspace: &Workspace) -> Result<String, GatewayError> {
        owners::replace_token(&self.app, workspace)
            .await
            .map_err(GatewayError::Owner)
    }

    /// Makes the path of a link that signs a browser in as the user `owner` of a workspace: once, and
    /// within a day. A link made before opens nothing any more.
    ///
    /// # Errors
    /// [`GatewayError::Owner`] when it cannot be stored.
    pub async fn owner_login(&self, workspace: &Workspace) -> Result<String, GatewayError> {
        owners::login(&self.app, workspace)
            .await
            .map_err(GatewayError::Owner)
    }

    /// Takes connections, keeps the copy of users and brings accepted commands to their owners until
    /// `stop`; then ends live streams, lets requests finish for at most
    /// ten seconds, and returns.
    pub async fn serve(self, stop: CancellationToken) {
        let closing = self.app.closing.clone();
        let tasks = self.app.tasks.clone();
        let users = self.app.people.clone().keep(closing.clone());
        tasks.spawn(vital("users").run(users));
        tasks.spawn(vital("forwarding").run(forward::run(self.app, closing.clone())));
        let too_long = async {
            stop.cancelled().await;
            closing.cancel();
            tokio::time::sleep(END_WAIT).await;
        };
        let all = async {
            connections::serve(self.listener, self.router, closing.clone()).await;
            tasks.close();
            tasks.wait().await;
        };
        tokio::select! {
            () = all => {}
            () = too_long => {
                tracing::warn!("some requests did not end in time and were cut off");
            }
        }
    }
}

/// A part whose panic ends the process: accepted commands would not be brought to their services, and nothing would say so.
pub(crate) const fn vital(part: &'static str) -> Vital {
    Vital {
        service: "gateway",
        part,
    }
}
