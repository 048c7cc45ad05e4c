//! Who is who: a service's read copy of users, and how it is kept.
//!
//! The handoff service owns the users and numbers its changes of them; a copy asks for what came
//! after the last one it has: at the start, each minute, after a nudge, and when somebody is unknown.
//! The copy's rows ([`table`]) lie among the tables of the service that keeps it; it changes nothing
//! but these, and nothing changes it but the owner's facts.

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
use tokio_util::sync::CancellationToken;

pub use table::User;

/// Facts that are asked for at a time.
const PAGE: u64 = 500;
/// How often the owner is asked though nothing was heard of it.
const LOOK_AGAIN: Duration = Duration::from_mins(1);
/// The same when it did not answer.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Writes facts into the copy: a service on the kernel has its database thread do it.
pub trait DirectoryWriter: Send + Sync + 'static {
    /// Has the facts applied ([`table::apply`]) and committed. Facts come more than once, and in any
    /// order.
    fn apply(&self, facts: Vec<UserChange>) -> BoxFuture<'_, Result<(), Problem>>;
}

/// The read copy. Cheap to clone.
#[derive(Clone)]
pub struct UserDirectory {
    bus: Bus,
    readers: DatabaseConnection,
    sink: Arc<dyn DirectoryWriter>,
    /// One asks at a time; the others find what it has brought.
    asking: Arc<Mutex<()>>,
}

impl fmt::Debug for UserDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserDirectory")
    }
}

/// A connection that writes by itself, for a service that is not on the kernel.
struct Writer(DatabaseConnection);

impl DirectoryWriter for Writer {
    fn apply(&self, facts: Vec<UserChange>) -> BoxFuture<'_, Result<(), Problem>> {
        async move {
            let tx = holdpoint_store::begin_write(&self.0).await.map_err(away)?;
            table::apply(&tx, &facts).await.map_err(away)?;
            tx.commit().await.map_err(away)
        }
        .boxed()
    }
}

impl UserDirectory {
    /// A copy that `writer` writes, each batch of facts in a transaction of its own.
    #[must_use]
    pub fn new(bus: Bus, readers: DatabaseConnection, writer: DatabaseConnection) -> Self {
        Self::with(bus, readers, Arc::new(Writer(writer)))
    }

    /// A copy that `sink` writes.
    #[must_use]
    pub fn with(bus: Bus, readers: DatabaseConnection, sink: Arc<dyn DirectoryWriter>) -> Self {
        Self {
            bus,
            readers,
            sink,
            asking: Arc::default(),
        }
    }

    /// A user; somebody unknown is asked for at once.
    ///
    /// # Errors
    /// 503 when the copy cannot be read, or the owner of users does not answer.
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

    /// A user as the copy has it now.
    ///
    /// # Errors
    /// 503 when the copy cannot be read.
    pub async fn known(
        &self,
        workspace: &Workspace,
        name: &UserName,
    ) -> Result<Option<User>, Problem> {
        table::find(&self.readers, workspace, name)
            .await
            .map_err(away)
    }

    /// What the owner has just said of a user counts at once, ahead of its numbered fact.
    ///
    /// # Errors
    /// 503 when the copy cannot be written.
    pub async fn take(&self, workspace: &Workspace, user: &UserView) -> Result<(), Problem> {
        let fact = UserChange {
            seq: 0,
            workspace: workspace.clone(),
            user: user.clone(),
        };
        self.sink.apply(vec![fact]).await
    }

    /// Asks for everything that is new.
    ///
    /// # Errors
    /// 503 when the copy cannot be read or written, or the owner of users does not answer.
    pub async fn refresh(&self) -> Result<(), Problem> {
        let _one = self.asking.lock().await;
        let system = system()?;
        loop {
            let after = table::position(&self.readers).await.map_err(away)?;
            let query = ListUserChanges { after, limit: PAGE };
            let facts = self.bus.query(&system, &query).await?;
            if facts.iter().all(|fact| fact.seq <= after) {
                return Ok(());
            }
            self.sink.apply(facts).await?;
        }
    }

    /// Keeps the copy until it is told to stop.
    pub async fn keep(self, stop: CancellationToken) {
        stop.run_until_cancelled(self.keep_on()).await;
    }

    async fn keep_on(&self) {
        loop {
            let nudges = subject::live_users();
            match self.bus.client().subscribe(nudges).await {
                Ok(nudges) => self.listen(nudges).await,
                Err(error) => tracing::warn!(%error, "no nudges about users; trying again"),
            }
            tokio::time::sleep(TRY_AGAIN).await;
        }
    }

    /// Returns when the subscription has ended.
    async fn listen(&self, mut nudges: async_nats::Subscriber) {
        loop {
            let pause = match self.refresh().await {
                Ok(()) => LOOK_AGAIN,
                Err(problem) => {
                    tracing::debug!(%problem, "the users cannot be asked for; trying again");
                    TRY_AGAIN
                }
            };
            match tokio::time::timeout(pause, nudges.next()).await {
                Ok(Some(_nudge)) => {}
                Ok(None) => return,
                Err(_elapsed) => {}
            }
        }
    }
}

/// The copy does not answer: logged here, told as "try again".
fn away(error: impl Into<StoreError>) -> Problem {
    let error: &dyn std::error::Error = &error.into();
    tracing::error!(error, "the read copy of users does not answer");
    Problem::unavailable("the copy of the users does not answer; try again")
}

/// The workspace of what belongs to no tenant.
fn system() -> Result<Workspace, Problem> {
    subject::SYSTEM_WORKSPACE.parse().map_err(|error| {
        tracing::error!(%error, "the system's workspace has no name");
        Problem::internal()
    })
}
