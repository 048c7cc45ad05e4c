//! Finds blobs that have expired without a reference in a snapshot (S1-R9).

use std::time::Duration;

use chrono::TimeDelta;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_clock::Clock;
use holdpoint_kernel::{Sweep, SweepPage};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;

use crate::domain::Input;
use crate::executor::Executor;
use crate::store;

/// A decision that began a moment ago may still count an expired blob. Clocks of replicas differ, too.
const MARGIN: TimeDelta = TimeDelta::minutes(5);

#[derive(Debug)]
pub(super) struct Blobs(pub(super) Clock);

impl Sweep<Executor> for Blobs {
    const NAME: &'static str = "blobs";
    const EVERY: Duration = Duration::from_secs(10 * 60);

    fn page<'a>(
        &'a mut self,
        db: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<Executor>, StoreError>> {
        async {
            let before = self.0.now() - MARGIN;
            let has_expired = store::has_expired_blobs(db, before).await?;
            let input = has_expired.then_some(Input::DeleteExpiredBlobs { before });
            Ok(SweepPage::of_inputs(input, has_expired))
        }
        .boxed()
    }
}
