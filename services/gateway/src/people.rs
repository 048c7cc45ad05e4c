//! Who is who: the read copy of users and how it is kept.
//!
//! The handoff service numbers its changes of users; the copy asks for what came after the last
//! one it has: at the start, each minute, after a nudge, and when somebody is unknown.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use holdpoint_bus::Bus;
use holdpoint_contracts::handoff::{self, UserFacts, UserView};
use holdpoint_contracts::{Problem, subject};
use holdpoint_ids::{UserName, Workspace};
use sea_orm::DatabaseConnection;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::problem::database_away;
use crate::store::users::{self, User};

/// Facts that are asked for at a time.
const PAGE: u64 = 500;
/// How often the owner is asked though nothing was heard of it.
const LOOK_AGAIN: Duration = Duration::from_mins(1);
/// The same when it did not answer.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The read copy. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct People {
    bus: Bus,
    readers: DatabaseConnection,
    writer: DatabaseConnection,
    /// One asks at a time; the others find what it has brought.
    asking: Arc<Mutex<()>>,
}

impl People {
    pub(crate) fn new(bus: Bus, readers: DatabaseConnection, writer: DatabaseConnection) -> Self {
        Self {
            bus,
            readers,
            writer,
            asking: Arc::default(),
        }
    }

    /// A user; somebody unknown is asked for at once.
    pub(crate) async fn find(
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
    pub(crate) async fn known(
        &self,
        workspace: &Workspace,
        name: &UserName,
    ) -> Result<Option<User>, Problem> {
        users::find(&self.readers, workspace, name)
            .await
            .map_err(database_away)
    }

    /// What the owner has just said of a user counts at once.
    pub(crate) async fn take(&self, workspace: &Workspace, user: &UserView) -> Result<(), Problem> {
        users::take(&self.writer, workspace, user)
            .await
            .map_err(database_away)
    }

    /// Asks for everything that is new.
    pub(crate) async fn refresh(&self) -> Result<(), Problem> {
        let _one = self.asking.lock().await;
        let system = system()?;
        loop {
            let after = users::position(&self.readers)
                .await
                .map_err(database_away)?;
            let query = UserFacts { after, limit: PAGE };
            let facts = self.bus.query(&system, &query).await?;
            users::apply(&self.writer, &facts)
                .await
                .map_err(database_away)?;
            let is_last = facts.len() < usize::try_from(PAGE).unwrap_or(usize::MAX);
            if is_last || facts.iter().all(|fact| fact.seq <= after) {
                return Ok(());
            }
        }
    }

    /// Keeps the copy until it is told to stop.
    pub(crate) async fn keep(self, stop: CancellationToken) {
        stop.run_until_cancelled(self.keep_on()).await;
    }

    async fn keep_on(&self) {
        loop {
            let Ok(system) = system() else { return };
            let nudges = subject::live(&system, handoff::SERVICE);
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

/// The workspace of what belongs to no tenant.
fn system() -> Result<Workspace, Problem> {
    subject::SYSTEM_WORKSPACE.parse().map_err(|error| {
        tracing::error!(%error, "the system's workspace has no name");
        Problem::internal()
    })
}
