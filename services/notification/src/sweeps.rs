//! Background passes that read rows page by page.

pub(crate) mod due_deliveries;
pub(crate) mod fan_out;

use std::time::Duration;

use chrono::TimeDelta;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_clock::Clock;
use holdpoint_ids::{WebhookId, Workspace};
use holdpoint_kernel::{Sweep, SweepPage};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;

use crate::Notification;
use crate::domain::{Input, Webhook};
use crate::store::{self, DigestPlace};

/// People of one page; many choose the same hour.
const PEOPLE: u64 = 200;

/// Finds people whose digests are due.
pub(crate) struct Digests {
    pub(crate) clock: Clock,
    /// The end of the last page of this pass. A row that no decision could change is skipped until the next
    /// pass.
    pub(crate) after: Option<DigestPlace>,
}

impl Sweep<Notification> for Digests {
    const NAME: &'static str = "digests";
    const EVERY: Duration = Duration::from_secs(5);

    fn page<'a>(
        &'a mut self,
        db: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<Notification>, StoreError>> {
        async move {
            let after = self.after.take();
            let due = store::digests(db, after.as_ref(), self.clock.now(), PEOPLE).await?;
            let is_full = u64::try_from(due.len()).is_ok_and(|found| found >= PEOPLE);
            if is_full {
                self.after = due.last().cloned();
            }
            let inputs = due.into_iter().map(|place| Input::CreateDigest {
                workspace: place.workspace,
                person: place.person,
            });
            Ok(SweepPage::of_inputs(inputs, is_full))
        }
        .boxed()
    }
}

/// How long notifications and deliveries are kept after their request or run has ended.
const KEPT_FOR: TimeDelta = TimeDelta::days(30);

/// Deletes events and their notifications after a while, page by page.
pub(crate) struct Retention {
    pub(crate) clock: Clock,
}

impl Sweep<Notification> for Retention {
    const NAME: &'static str = "retention";
    const EVERY: Duration = Duration::from_secs(10);

    fn page<'a>(
        &'a mut self,
        db: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<Notification>, StoreError>> {
        async move {
            let before = self.clock.now() - KEPT_FOR;
            let more = store::has_expired(db, before).await?;
            let input = more.then_some(Input::DeleteExpired { before });
            Ok(SweepPage::of_inputs(input, more))
        }
        .boxed()
    }
}

/// Webhooks of one page.
const WEBHOOKS: u64 = 200;

/// Repeats for every enabled webhook that the executor is to report run ends.
///
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
