//! Background passes: events whose fan-out is pending, and deliveries that are due. A sweep never decides:
//! what it finds becomes an input.

mod digests;
mod retention;
mod run_end_watches;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_clock::Clock;
use holdpoint_contracts::notification::Channel;
use holdpoint_kernel::{PendingSweep, Sweep, SweepPage};
use holdpoint_store::StoreError;
use holdpoint_user_directory::UserDirectory;
use sea_orm::DatabaseConnection;

use crate::Notification;
use crate::domain::{DeliveryKey, DeliveryTarget, Input};
use crate::sending::Post;
use crate::store;

pub(crate) use digests::Digests;
pub(crate) use retention::Retention;
pub(crate) use run_end_watches::RunEndWatches;

/// Request events and notices of one page. Each notifies up to a page of people, all in one commit.
const EVENTS: u64 = 4;

/// Run ends of one page. Few people watch one run.
const RUN_ENDS: u64 = 20;

/// Due deliveries that one pass reads; more than the pool takes.
const DUE_MAX: u64 = 100;

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
    async fn page(
        &mut self,
        db: &DatabaseConnection,
    ) -> Result<SweepPage<Notification>, StoreError> {
        let begun = self.wake.begun();
        let mut events = self.events.next(db, EVENTS).await?;
        events.append(&mut self.run_ends.next(db, RUN_ENDS).await?);
        let mut page = SweepPage {
            more: false,
            inputs: Vec::new(),
            messages: Vec::new(),
        };
        if events.is_empty() {
            self.wake.end(begun);
        } else if self.refresh_people().await {
            page.more = true;
            page.inputs = events.into_iter().map(Input::ContinueFanOut).collect();
        }
        Ok(page)
    }

    /// A user who was created, or got a role, before the event must be notified. A stale user directory would
    /// leave them out for good, so nobody is notified by one.
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
        async move { self.page(db).await }.boxed()
    }
}

/// How long the test clock waits for due deliveries, in real time.
const SETTLE_WITHIN: Duration = Duration::from_secs(5);

/// Claims due deliveries, as many as the pool takes. Each result wakes the sweep again.
pub(crate) struct DueDeliveries {
    pub(crate) wake: Arc<PendingSweep>,
    pub(crate) post: Arc<Post>,
    pub(crate) clock: Clock,
    /// Since when the test clock may be waiting.
    pub(crate) since: Option<Instant>,
}

impl DueDeliveries {
    async fn page(
        &mut self,
        db: &DatabaseConnection,
    ) -> Result<SweepPage<Notification>, StoreError> {
        let begun = self.wake.begun();
        let since = *self.since.get_or_insert_with(Instant::now);
        let busy = self.post.busy();
        let mut inputs = Vec::new();
        let mut is_done = busy.is_empty();
        for channel in [
            Channel::Callback,
            Channel::Webhook,
            Channel::Chat,
            Channel::Email,
            Channel::Digest,
        ] {
            let skipped: Vec<_> = busy
                .iter()
                .filter(|to| to.channel() == channel)
                .cloned()
                .collect();
            let mut due = store::due(db, channel, self.clock.now(), &skipped, DUE_MAX).await?;
            due.retain(|key| !self.post.is_at_work(key));
            is_done &= due.is_empty();
            self.keep_fair(&mut due);
            due.truncate(self.post.room(channel));
            inputs.extend(due.into_iter().map(Input::ClaimDelivery));
        }
        if is_done || since.elapsed() > SETTLE_WITHIN {
            self.since = None;
            self.wake.end(begun);
        }
        Ok(SweepPage {
            more: false,
            inputs,
            messages: Vec::new(),
        })
    }
}

impl DueDeliveries {
    /// Keeps as many calls of each webhook or chat as it may have at a time.
    fn keep_fair(&self, due: &mut Vec<DeliveryKey>) {
        let mut room: HashMap<DeliveryTarget, usize> = HashMap::new();
        due.retain(|key| match key.to {
            DeliveryTarget::Mail(_) | DeliveryTarget::Callback | DeliveryTarget::Digest(_) => true,
            DeliveryTarget::Webhook(_) | DeliveryTarget::Chat(_) => {
                let left = room.entry(key.to.clone());
                let left = left.or_insert_with(|| self.post.room_of(&key.to));
                let has_room = *left > 0;
                *left = left.saturating_sub(1);
                has_room
            }
        });
    }
}

impl Sweep<Notification> for DueDeliveries {
    const NAME: &'static str = "due_deliveries";
    const EVERY: Duration = Duration::from_secs(1);

    fn page<'a>(
        &'a mut self,
        db: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<Notification>, StoreError>> {
        async move { self.page(db).await }.boxed()
    }
}
