//! Repeats for every enabled webhook that the executor is to report run ends.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_ids::{WebhookId, Workspace};
use holdpoint_kernel::{Sweep, SweepPage};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;

use crate::Notification;
use crate::domain::{Input, Webhook};
use crate::store;

/// Webhooks of one page.
const WEBHOOKS: u64 = 200;

/// The first pass begins at service start. Later passes repair a first one that could not be committed, and an
/// executor that was restored without its watches.
#[derive(Default)]
pub(crate) struct RunEndWatches {
    after: Option<(Workspace, WebhookId)>,
}

impl Sweep<Notification> for RunEndWatches {
    const NAME: &'static str = "run_end_watches";
    const EVERY: Duration = Duration::from_secs(10 * 60);

    fn page<'a>(
        &'a mut self,
        db: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<Notification>, StoreError>> {
        async move {
            let after = self.after.take();
            let webhooks = store::enabled_webhooks(db, after.as_ref(), WEBHOOKS).await?;
            let more = u64::try_from(webhooks.len()).is_ok_and(|found| found >= WEBHOOKS);
            if more {
                let last = webhooks.last();
                self.after = last.map(|last| (last.workspace.clone(), last.id));
            }
            let wanting = webhooks.into_iter().filter(Webhook::wants_ends);
            let inputs =
                wanting.map(|Webhook { workspace, id, .. }| Input::WatchRunEnds { workspace, id });
            Ok(SweepPage::of_inputs(inputs, more))
        }
        .boxed()
    }
}
