//! Publishes what other kernels committed and did not live to publish.

use std::time::Duration;

use holdpoint_bus::Bus;
use sea_orm::DatabaseConnection;
use tokio_util::sync::CancellationToken;

use crate::outbox::{self, LeftBehind};
use crate::publisher::{self, Published};
use crate::writer::chain;

/// Real time between two looks for rows whose lease is over; shorter in this crate's own tests.
const LOOK: Duration = if cfg!(test) {
    Duration::from_millis(100)
} else {
    Duration::from_secs(10)
};

/// Sends what an earlier process committed and may not have published.
pub(crate) async fn republish(
    bus: &Bus,
    published: &Published,
    rows: LeftBehind,
    stop: &CancellationToken,
) {
    if rows.is_empty() {
        return;
    }
    tracing::info!(
        batches = rows.len(),
        "publishing what the process before left in its outbox"
    );
    for (row, messages) in rows {
        if publisher::publish(bus, messages, stop).await {
            published.end_of(row);
        }
    }
}

/// Takes over rows of kernels that are gone, until it is told to stop. For a store that several share.
pub(crate) async fn take_over(
    bus: Bus,
    published: Published,
    db: DatabaseConnection,
    owner: String,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        match outbox::take_over(&db, &owner).await {
            Ok(rows) => republish(&bus, &published, rows, &stop).await,
            Err(error) => {
                tracing::warn!(error = %chain(&error), "the outbox could not be looked at");
            }
        }
        stop.run_until_cancelled(tokio::time::sleep(LOOK)).await;
    }
}
