//! Publishes outbox rows of kernels that have died. For a store that several kernels share.

use std::sync::Arc;
use std::time::Duration;

use sea_orm::DatabaseConnection;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::publisher::CommittedBatch;
use super::rows;
use crate::desired_states::sender::Sender;
use crate::error_chain::error_chain;
use crate::service::Service;

/// Real time between two searches for expired leases; shorter in this crate's own tests.
const EVERY: Duration = if cfg!(test) {
    Duration::from_millis(100)
} else {
    Duration::from_secs(10)
};

/// Adopts expired rows until the service stops, and publishes them like the rows of this kernel. A kernel
/// with a backlog adopts none, because it could not publish them either.
pub(crate) async fn adopt_orphaned<S: Service>(
    batches: mpsc::Sender<CommittedBatch>,
    sender: Arc<Sender<S>>,
    db: DatabaseConnection,
    owner: String,
    stop: CancellationToken,
) {
    let completions = &sender.completions;
    loop {
        stop.run_until_cancelled(tokio::time::sleep(EVERY)).await;
        if stop.is_cancelled() {
            return;
        }
        if !sender.bus.is_connected() || sender.status.has_backlog() {
            continue;
        }
        match rows::adopt_orphaned(&db, &owner, &completions.rows_in_hand()).await {
            Ok(adopted) => {
                if !adopted.is_empty() {
                    let batches = adopted.len();
                    tracing::info!(batches, "publishing outbox rows that another kernel left");
                }
                for (row, messages) in adopted {
                    completions.begin_batch(Some(row));
                    let batch = CommittedBatch::of_row(row, messages);
                    if batches.send(batch).await.is_err() {
                        return completions.end_batch(None);
                    }
                }
            }
            Err(error) => {
                tracing::warn!(error = %error_chain(&error), "outbox not searched for expired leases; trying again");
            }
        }
    }
}
