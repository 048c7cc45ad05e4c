//! Publishes what other kernels committed and did not live to publish. For a store that several share.

use std::time::Duration;

use sea_orm::DatabaseConnection;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::desired_states::Sender;
use crate::publisher::Publishing;
use crate::writer::chain;
use crate::{Service, outbox};

/// Real time between two looks for rows whose lease is over; shorter in this crate's own tests.
const LOOK: Duration = if cfg!(test) {
    Duration::from_millis(100)
} else {
    Duration::from_secs(10)
};

/// Takes over rows of kernels that are gone, until it is told to stop, and has them published like
/// those of its own kernel. While its own rows cannot be published it takes no others.
pub(crate) async fn take_over<S: Service>(
    publishing: mpsc::Sender<Publishing>,
    courier: Sender<S>,
    db: DatabaseConnection,
    owner: String,
    stop: CancellationToken,
) {
    let Sender {
        bus,
        published,
        activity,
        ..
    } = courier;
    loop {
        stop.run_until_cancelled(tokio::time::sleep(LOOK)).await;
        if stop.is_cancelled() {
            return;
        }
        if !bus.is_connected() || activity.is_behind() {
            continue;
        }
        match outbox::take_over(&db, &owner, &published.in_hand()).await {
            Ok(rows) => {
                if !rows.is_empty() {
                    tracing::info!(
                        batches = rows.len(),
                        "publishing what a process left in the outbox"
                    );
                }
                for (row, outgoing) in rows {
                    published.begin(Some(row));
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
    }
}
