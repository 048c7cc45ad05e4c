//! The read copy of users in the executor (`holdpoint-user-directory`): whose commands count.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::UserChange;
use holdpoint_kernel::{Deps, Handle};
use holdpoint_store::{StoreError, open_writer};
use holdpoint_user_directory::{DirectoryWriter, UserDirectory};
use sea_orm::DatabaseConnection;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::domain::Input;
use crate::{Executor, vital};

/// How long a start waits for the owner of users; after it the copy of before counts until it is heard.
const PATIENCE: Duration = Duration::from_secs(2);

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(100);

/// The database thread writes the copy, like everything.
struct Kernel(Handle<Executor>);

impl DirectoryWriter for Kernel {
    fn apply(&self, facts: Vec<UserChange>) -> BoxFuture<'_, Result<(), Problem>> {
        async move {
            if self.0.submit(vec![Input::Users(facts)]).await {
                return Ok(());
            }
            let detail = "the copy of the users cannot be written now; try again";
            Err(Problem::unavailable(detail))
        }
        .boxed()
    }
}

/// Before the first command is taken: what happened while the executor was away. Commands have waited as
/// long, and whoever gave them may have been disabled since.
pub(crate) async fn catch_up(deps: &Deps) -> Result<(), StoreError> {
    let db = open_writer(&deps.store).await?;
    let people = UserDirectory::new(deps.bus.clone(), db.clone(), db.clone());
    let heard = tokio::time::timeout(PATIENCE, async {
        while let Err(problem) = people.refresh().await {
            tracing::debug!(%problem, "the users are not known yet");
            tokio::time::sleep(PAUSE).await;
        }
    });
    if heard.await.is_err() {
        tracing::warn!(
            "the owner of users does not answer: commands count by what was known of them before"
        );
    }
    drop(people);
    Ok(db.close().await?)
}

/// Keeps the copy until it is told to stop.
pub(crate) fn keep(
    deps: &Deps,
    handle: &Handle<Executor>,
    readers: &DatabaseConnection,
    stop: CancellationToken,
    tracker: &TaskTracker,
) {
    let sink = std::sync::Arc::new(Kernel(handle.clone()));
    let people = UserDirectory::with(deps.bus.clone(), readers.clone(), sink);
    tracker.spawn(vital("users").run(people.keep(stop)));
}
