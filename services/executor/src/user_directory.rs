//! Keeps the executor's copy of the user directory (`holdpoint-user-directory`), which decides whose
//! commands count.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::UserChange;
use holdpoint_kernel::{Deps, Handle};
use holdpoint_store::{StoreError, open_writer};
use holdpoint_user_directory::{Confirmation, DirectoryWriter, UserDirectory};
use sea_orm::DatabaseConnection;

use crate::domain::Input;
use crate::executor::Executor;

/// How long the executor waits for the handoff service when it starts. After it the previous copy counts until a refresh,
/// and gated steps do not start.
const REFRESH_WITHIN: Duration = Duration::from_secs(2);

/// Interval between two attempts.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// The kernel writes the copy, because only its database thread writes.
struct KernelWriter(Handle<Executor>);

impl DirectoryWriter for KernelWriter {
    fn apply(&self, changes: Vec<UserChange>) -> BoxFuture<'_, Result<(), Problem>> {
        async move {
            if self.0.submit(vec![Input::Users(changes)]).await {
                return Ok(());
            }
            let detail = "the copy of the user directory cannot be written now; try again";
            Err(Problem::unavailable(detail))
        }
        .boxed()
    }
}

/// Refreshes the copy before the executor handles its first command. Commands may have waited while the
/// executor was down, and their senders may have been disabled meanwhile.
pub(crate) async fn catch_up(deps: &Deps, confirmation: &Confirmation) -> Result<(), StoreError> {
    let db = open_writer(&deps.store).await?;
    let directory = UserDirectory::new(deps.bus.clone(), db.clone(), db.clone());
    let directory = directory.confirming(confirmation.clone());
    let refreshed = tokio::time::timeout(REFRESH_WITHIN, async {
        while let Err(problem) = directory.refresh().await {
            tracing::debug!(%problem, "user directory cannot be refreshed; retrying");
            tokio::time::sleep(RETRY_AFTER).await;
        }
    });
    if refreshed.await.is_err() {
        tracing::warn!(
            "the handoff service does not reply; commands are checked against the previous user directory, and gated steps wait"
        );
    }
    drop(directory);
    Ok(db.close().await?)
}

/// The copy, which the kernel writes.
pub(crate) fn open(
    deps: &Deps,
    handle: &Handle<Executor>,
    readers: &DatabaseConnection,
    confirmation: &Confirmation,
) -> UserDirectory {
    let writer = std::sync::Arc::new(KernelWriter(handle.clone()));
    let directory = UserDirectory::with(deps.bus.clone(), readers.clone(), writer);
    directory.confirming(confirmation.clone())
}
