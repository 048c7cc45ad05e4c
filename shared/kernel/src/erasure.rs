//! Erases what the kernel has kept of messages about a contact or a run: replies under idempotency keys, and dead
//! letters.

use holdpoint_ids::Workspace;
use holdpoint_store::{StoreError, Transaction, mark_for_compaction};
use sea_orm::ConnectionTrait;

use crate::traces::Traces;
use crate::{dead_letters, desired_states, idempotency};

/// Replaces the replies and deletes the dead letters of a workspace that name what is erased. SQLite then writes its
/// file anew, because deleted bytes stay in it until then.
///
/// # Errors
/// [`StoreError`] when the database refuses.
pub async fn erase_traces(
    db: &Transaction,
    workspace: &Workspace,
    traces: &Traces,
) -> Result<(), StoreError> {
    if !traces.is_empty() {
        idempotency::erase(db, workspace, traces).await?;
        dead_letters::erase(db, workspace, traces).await?;
    }
    mark_for_compaction(db).await
}

/// The desired states of a kind and workspace that are not acknowledged and whose body contains a text.
///
/// # Errors
/// [`StoreError`] when the database is unavailable.
pub async fn count_unacknowledged(
    db: &impl ConnectionTrait,
    kind: &str,
    workspace: &Workspace,
    text: &str,
) -> Result<u64, StoreError> {
    desired_states::rows::count(db, kind, workspace, text).await
}
