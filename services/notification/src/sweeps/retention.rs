//! Looks for what is known of requests that ended long ago: it goes, page by page.

use std::time::Duration;

use chrono::TimeDelta;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_clock::Clock;
use holdpoint_kernel::{Sweep, SweepPage};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;

use crate::Notification;
use crate::domain::Input;
use crate::store;

/// How long notifications and deliveries of a request are kept after it has ended.
const KEPT_FOR: TimeDelta = TimeDelta::days(30);

/// Has what is old forgotten.
pub(crate) struct Forgetting {
    pub(crate) clock: Clock,
}

impl Forgetting {
    async fn page(
        &mut self,
        db: &DatabaseConnection,
    ) -> Result<SweepPage<Notification>, StoreError> {
        let before = self.clock.now() - KEPT_FOR;
        let more = store::has_old(db, before).await?;
        Ok(SweepPage {
            more,
            inputs: more
                .then_some(Input::Forget { before })
                .into_iter()
                .collect(),
            messages: Vec::new(),
        })
    }
}

impl Sweep<Notification> for Forgetting {
    const NAME: &'static str = "forgetting";
    const EVERY: Duration = Duration::from_secs(10);

    fn page<'a>(
        &'a mut self,
        db: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<Notification>, StoreError>> {
        async move { self.page(db).await }.boxed()
    }
}
