//! Where a test build of the gateway ends its process.

use holdpoint_store::crash::{self, Point};
use holdpoint_store::{StoreError, Transaction};

/// Name of the gateway in `HOLDPOINT_CRASH`.
const SERVICE: &str = "gateway";

/// Commits what an act has written, between two crash points.
pub(super) async fn commit(tx: Transaction, act: &str) -> Result<(), StoreError> {
    pass(Point::Decided, act);
    tx.commit().await?;
    pass(Point::Committed, act);
    Ok(())
}

pub(super) fn pass(point: Point, act: &str) {
    crash::pass(SERVICE, point, &[act]);
}
