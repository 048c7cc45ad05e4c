//! Publishes what other kernels committed and did not live to publish. For a store that several share.

use std::time::Duration;

use sea_orm::DatabaseConnection;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::outbox;
use crate::publisher::{Published, Publishing};
use crate::writer::chain;

/// Real time between two looks for rows whose lease is over; shorter in this crate's own tests.
const LOOK: Duration = if cfg!(test) {
    Duration::from_millis(100)
} else {
    Duration::from_secs(10)
};

/// Takes over rows of kernels that are gone, until it is told to stop, and has them published like
/// those of its own kernel.
pub(crate) async fn take_over(
    publishing: mpsc::Sender<Publishing>,
    published: Published,
    db: DatabaseConnection,
    owner: String,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        match outbox::take_over(&db, &owner).await {
            Ok(rows) => {
                if !rows.is_empty() {
                    tracing::info!(batches = rows.len(), "publishing what another process left");
                }
                for (row, outgoing) in rows {
                    published.begin();
                    let taken = Publishing {
                        outbox: Some(row),
                        outgoing,
                        ..Publishing::default()
                    };
                    if publishing.send(taken).await.is_err() {
                        return published.end(None);
                    }
                }
            }
            Err(error) => {
                tracing::warn!(error = %chain(&error), "the outbox could not be looked at");
            }
        }
        stop.run_until_cancelled(tokio::time::sleep(LOOK)).await;
    }
}
