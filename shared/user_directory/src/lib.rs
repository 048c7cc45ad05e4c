//! The user directory: a service's read copy of users.
//!
//! The handoff service owns the users and numbers their changes. A directory asks for the changes after the
//! last one it has applied: at the start, each minute, after a nudge, and when a user is unknown. A reply without
//! changes confirms the copy ([`Confirmation`]). Its rows ([`table`]) are among the tables of its service. It changes
//! only these rows, and only user changes change it.

mod confirmation;
pub mod table;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use holdpoint_bus::Bus;
use holdpoint_contracts::handoff::{ListUserChanges, UserChange, UserView};
use holdpoint_contracts::{Problem, subject};
use holdpoint_ids::{UserName, Workspace};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use confirmation::Confirmation;
pub use table::User;

const PAGE: u64 = 500;
/// Wait between two queries without a nudge.
const REFRESH_EVERY: Duration = Duration::from_mins(1);
/// Wait after a failed query.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Applies changes. A service on the kernel does it on its database thread.
pub trait DirectoryWriter: Send + Sync + 'static {
    /// Applies ([`table::apply`]) and commits changes. They may arrive more than once and in any order.
    fn apply(&self, changes: Vec<UserChange>) -> BoxFuture<'_, Result<(), Problem>>;
}

/// The read copy. Cheap to clone.
#[derive(Clone)]
pub struct UserDirectory {
    bus: Bus,
    readers: DatabaseConnection,
    writer: Arc<dyn DirectoryWriter>,
    /// Only one query runs at a time; the other callers then find its changes.
    refreshing: Arc<Mutex<()>>,
    confirmation: Confirmation,
}

impl fmt::Debug for UserDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserDirectory")
    }
}

/// Writes with a connection, for a service that is not on the kernel.
struct ConnectionWriter(DatabaseConnection);

impl DirectoryWriter for ConnectionWriter {
    fn apply(&self, changes: Vec<UserChange>) -> BoxFuture<'_, Result<(), Problem>> {
        async move {
            let tx = holdpoint_store::begin_write(&self.0)
                .await
                .map_err(unavailable)?;
            table::apply(&tx, &changes).await.map_err(unavailable)?;
            tx.commit().await.map_err(unavailable)
        }
        .boxed()
    }
}

impl UserDirectory {
    /// Applies each batch of changes in a transaction of `writer`.
    #[must_use]
    pub fn new(bus: Bus, readers: DatabaseConnection, writer: DatabaseConnection) -> Self {
        Self::with(bus, readers, Arc::new(ConnectionWriter(writer)))
    }

    /// Applies changes with `writer`.
    #[must_use]
    pub fn with(bus: Bus, readers: DatabaseConnection, writer: Arc<dyn DirectoryWriter>) -> Self {
        Self {
            bus,
            readers,
            writer,
            refreshing: Arc::default(),
            confirmation: Confirmation::default(),
        }
    }

    /// Records in `confirmation` when it has all changes.
    #[must_use]
    pub fn confirming(self, confirmation: Confirmation) -> Self {
        Self {
            confirmation,
            ..self
        }
    }

    /// Finds a user. If it is unknown the directory is refreshed first.
    ///
    /// # Errors
    /// 503: the directory cannot be read, or the handoff service does not reply.
    pub async fn find(
        &self,
        workspace: &Workspace,
        name: &UserName,
    ) -> Result<Option<User>, Problem> {
        if let Some(user) = self.known(workspace, name).await? {
            return Ok(Some(user));
        }
        self.refresh().await?;
        self.known(workspace, name).await
    }

    /// Finds a user without a refresh.
    ///
    /// # Errors
    /// 503: the directory cannot be read.
    pub async fn known(
        &self,
        workspace: &Workspace,
        name: &UserName,
    ) -> Result<Option<User>, Problem> {
        table::find(&self.readers, workspace, name)
            .await
            .map_err(unavailable)
    }

    /// Applies a user from a reply of the handoff service at once, before its numbered change arrives.
    ///
    /// # Errors
    /// 503: the directory cannot be written.
    pub async fn take(&self, workspace: &Workspace, user: &UserView) -> Result<(), Problem> {
        let change = UserChange {
            seq: 0,
            workspace: workspace.clone(),
            user: user.clone(),
        };
        self.writer.apply(vec![change]).await
    }

    /// Queries and applies all new changes.
    ///
    /// # Errors
    /// 503: the directory cannot be read or written, or the handoff service does not reply.
    pub async fn refresh(&self) -> Result<(), Problem> {
        let _one = self.refreshing.lock().await;
        let system = system()?;
        loop {
            let after = table::position(&self.readers).await.map_err(unavailable)?;
            let query = ListUserChanges { after, limit: PAGE };
            let asked = Instant::now();
            let changes = self.bus.query(&system, &query).await?;
            if changes.iter().all(|change| change.seq <= after) {
                self.confirmation.record(asked);
                return Ok(());
            }
            self.writer.apply(changes).await?;
        }
    }

    /// Keeps the directory up to date until the service stops.
    pub async fn keep(self, stop: CancellationToken) {
        stop.run_until_cancelled(self.refresh_forever()).await;
    }

    async fn refresh_forever(&self) {
        loop {
            let nudges = subject::live_users();
            match self.bus.client().subscribe(nudges).await {
                Ok(nudges) => self.listen(nudges).await,
                Err(error) => {
                    tracing::warn!(%error, "not subscribed to nudges about users; trying again");
                }
            }
            tokio::time::sleep(RETRY_AFTER).await;
        }
    }

    /// Returns when the subscription has ended.
    async fn listen(&self, mut nudges: async_nats::Subscriber) {
        let mut was_refreshed = true;
        loop {
            let refreshed = self.refresh().await;
            match &refreshed {
                Err(problem) if was_refreshed => {
                    tracing::warn!(%problem, "user changes not received; trying again");
                }
                Ok(()) if !was_refreshed => {
                    tracing::info!("user changes are received again");
                }
                Ok(()) | Err(_) => {}
            }
            was_refreshed = refreshed.is_ok();
            let pause = if was_refreshed {
                REFRESH_EVERY
            } else {
                RETRY_AFTER
            };
            match tokio::time::timeout(pause, nudges.next()).await {
                Ok(Some(_nudge)) => {}
                Ok(None) => return,
                Err(_elapsed) => {}
            }
        }
    }
}

/// Logs an error of the tables; the caller gets a 503.
fn unavailable(error: impl Into<StoreError>) -> Problem {
    let error: &dyn std::error::Error = &error.into();
    tracing::error!(
        error,
        "user directory cannot be read or written; the caller has to try again"
    );
    Problem::unavailable("the user directory does not answer; try again")
}

fn system() -> Result<Workspace, Problem> {
    subject::SYSTEM_WORKSPACE.parse().map_err(|error| {
        tracing::error!(%error, "the system's workspace has no name");
        Problem::internal()
    })
}
