//! Finds events whose fan-out is pending.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_kernel::{PendingSweep, Sweep, SweepPage};
use holdpoint_store::StoreError;
use holdpoint_user_directory::UserDirectory;
use sea_orm::DatabaseConnection;

use crate::Notification;
use crate::domain::Input;
use crate::store;

/// Events of each queue in one page. Each may also notify a page of watchers, which few events have.
const EVENTS: u64 = 20;

/// How long a refresh of the user directory may take. Its pages stay, and the next pass continues.
const REFRESH_WITHIN: Duration = Duration::from_secs(5);

/// Continues pending fan-outs, page by page.
pub(crate) struct FanOut {
    pub(crate) wake: Arc<PendingSweep>,
    pub(crate) people: UserDirectory,
    pub(crate) events: store::FairQueue,
    pub(crate) run_ends: store::FairQueue,
}

impl FanOut {
    /// A user who was created, or got a role, before the event must be notified. A stale user directory would
    /// leave them out for good, so no notification uses one.
    async fn refresh_people(&self) -> bool {
        let refreshed = tokio::time::timeout(REFRESH_WITHIN, self.people.refresh()).await;
        let is_current = matches!(refreshed, Ok(Ok(())));
        if !is_current {
            tracing::warn!("user directory cannot be refreshed; people are notified once it can");
        }
        is_current
    }
}

impl Sweep<Notification> for FanOut {
    const NAME: &'static str = "fan_out";
    const EVERY: Duration = Duration::from_secs(5);

    fn page<'a>(
        &'a mut self,
        db: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<Notification>, StoreError>> {
        async move {
            let begun = self.wake.begun();
            let mut events = self.events.next(db, EVENTS).await?;
            events.append(&mut self.run_ends.next(db, EVENTS).await?);
            if events.is_empty() {
                self.wake.end(begun);
            } else if self.refresh_people().await {
                let inputs = events.into_iter().map(Input::ContinueFanOut);
                return Ok(SweepPage::of_inputs(inputs, true));
            }
            Ok(SweepPage::of_inputs([], false))
        }
        .boxed()
    }
}
