//! The gateway: HTTP API, pages and live events.
//!
//! It owns tokens, sessions, inbound hooks, and commands that were accepted while their service was down. It
//! translates a request into a command or a query, signs who the caller is, and sends it over the bus.
//! It must never contain a rule of the domain, read a table of another service, or log a token.

mod access_log;
mod app;
mod auth;
mod body;
mod body_limits;
mod call;
mod command_outcome;
mod concurrency;
mod connections;
mod deferred_commands;
mod deps;
mod idempotency;
mod nudges;
mod pages;
mod params;
mod path;
mod permits;
mod problem;
mod redaction;
mod router;
mod routes;
mod send_command;
mod sse;
mod store;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod time_zones;
mod tls;
mod use_cases;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use holdpoint_contracts::Problem;
use holdpoint_ids::Workspace;
use holdpoint_store::{Checkpoints, StoreError};
use holdpoint_telemetry::Vital;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::app::{App, Tables};
use crate::auth::bootstrap_owner;
use crate::problem::database_away;
use crate::store::{sessions, tokens};

pub use crate::deps::{Config, Deps, IsMailShown, Mails, NotReady, WantedMails};

/// Connections that read. A request takes one for one statement.
const READERS: u32 = 4;

/// How long open requests may take after the stop.
const END_WAIT: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The address is in use, or does not belong to this machine.
    #[error("cannot listen on {address}; choose another address with --http")]
    Listen {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    /// The database could not be opened or migrated.
    #[error("cannot open the gateway's database")]
    Store(#[from] StoreError),
    /// The user `owner` of a workspace, or a token of that user, could not be created.
    #[error("cannot create a token for the owner of the workspace")]
    Owner(#[from] Problem),
}

/// A gateway that listens. It accepts connections once [`Gateway::serve`] runs.
pub struct Gateway {
    address: SocketAddr,
    listener: TcpListener,
    router: Router,
    app: App,
    checkpoints: Checkpoints,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// Migrates the database and binds the listener.
///
/// # Errors
/// [`GatewayError`] when the address or the database cannot be used.
pub async fn start(deps: Deps, config: Config) -> Result<Gateway, GatewayError> {
    holdpoint_store::migrate::<holdpoint_migrations::gateway::Migrator>(&deps.store).await?;
    let writer = holdpoint_store::open_writer(&deps.store).await?;
    let readers = holdpoint_store::open_readers(&deps.store, READERS).await?;
    let checkpoints = Checkpoints::start(&deps.store).await?;
    let listen = |source| GatewayError::Listen {
        address: config.http,
        source,
    };
    let listener = TcpListener::bind(config.http).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    if !address.ip().is_loopback() {
        tracing::warn!(
            %address,
            "other machines can reach this address without encryption, so tokens and answers can be read in \
             transit; put a TLS proxy in front of it"
        );
    }
    let closing = CancellationToken::new();
    let app = App::new(deps, Tables { readers, writer }, closing);
    Ok(Gateway {
        address,
        listener,
        router: router::router(app.clone()),
        app,
        checkpoints,
    })
}

impl Gateway {
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Creates a token for the user `owner` of a workspace, and the user if it does not exist. The token does
    /// not expire. The newest hundred tokens stay valid. Only the digest is stored.
    ///
    /// # Errors
    /// [`GatewayError::Owner`] when it cannot be stored, or when the handoff service does not answer within
    /// fifteen seconds.
    pub async fn owner_token(&self, workspace: &Workspace) -> Result<String, GatewayError> {
        Ok(bootstrap_owner::create_token(&self.app, workspace, None).await?)
    }

    /// The token of an earlier start if it still has all rights of the owner, else a new one.
    ///
    /// # Errors
    /// As [`Gateway::owner_token`].
    pub async fn kept_owner_token(
        &self,
        workspace: &Workspace,
        kept: &str,
    ) -> Result<String, GatewayError> {
        let app = &self.app;
        let user = bootstrap_owner::await_owner(app, workspace).await?;
        let found = tokens::holder(&app.readers, kept, app.clock.now()).await;
        let is_good = found.map_err(database_away)?.is_some_and(|(_id, holder)| {
            holder.workspace == *workspace && holder.user == user && holder.role.is_none()
        });
        if is_good {
            return Ok(kept.to_owned());
        }
        self.owner_token(workspace).await
    }

    /// Creates a token for the owner and revokes all earlier ones of [`Gateway::owner_token`].
    ///
    /// # Errors
    /// As [`Gateway::owner_token`].
    pub async fn replace_owner_token(&self, workspace: &Workspace) -> Result<String, GatewayError> {
        bootstrap_owner::await_owner(&self.app, workspace).await?;
        let revoked = tokens::revoke_printed(&self.app.writer, workspace).await;
        revoked.map_err(database_away)?;
        self.owner_token(workspace).await
    }

    /// Creates the path of a link that signs a browser in as the user `owner`, once and within a day. It
    /// revokes earlier links.
    ///
    /// # Errors
    /// [`GatewayError::Owner`] when it cannot be stored.
    pub async fn owner_login(&self, workspace: &Workspace) -> Result<String, GatewayError> {
        let (writer, now) = (&self.app.writer, self.app.clock.now());
        let user = bootstrap_owner::parse_name()?;
        let code = sessions::make_login(writer, workspace, &user, now).await;
        Ok(format!("/login/{}", code.map_err(database_away)?))
    }

    /// Serves until `stop`, keeps the user directory current and sends deferred commands. After `stop` it ends
    /// live streams and waits at most ten seconds for open requests.
    pub async fn serve(self, stop: CancellationToken) {
        let _until_the_end = self.checkpoints;
        let closing = self.app.closing.clone();
        let tasks = self.app.tasks.clone();
        let users = self.app.people.clone().keep(closing.clone());
        tasks.spawn(vital("users").run(users));
        let nudges = self.app.nudges.clone();
        let nudges = nudges.receive(self.app.bus.clone(), closing.clone());
        tasks.spawn(vital("nudges").run(nudges));
        tasks.spawn(
            vital("deferred_commands").run(deferred_commands::run(self.app, closing.clone())),
        );
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
                tracing::warn!("requests did not end within ten seconds; their connections are closed");
            }
        }
    }
}

/// A task whose panic ends the process. Otherwise deferred commands would not be sent, and nothing would report it.
const fn vital(part: &'static str) -> Vital {
    Vital {
        service: "gateway",
        part,
    }
}
