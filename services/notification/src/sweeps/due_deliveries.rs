//! Finds deliveries that are due.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_clock::Clock;
use holdpoint_contracts::notification::Channel;
use holdpoint_kernel::{PendingSweep, Sweep, SweepPage};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;

use crate::Notification;
use crate::domain::{DeliveryKey, DeliveryTarget, Input};
use crate::sending::post::{Post, Target, target_of};
use crate::store;

/// Due deliveries that one pass reads; more than the pool takes.
const DUE_MAX: u64 = 100;

const CHANNELS: [Channel; 5] = [
    Channel::Callback,
    Channel::Webhook,
    Channel::Chat,
    Channel::Email,
    Channel::Digest,
];

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
    /// Keeps as many calls of each webhook or chat as it may have at a time. Returns whether it removed any.
    fn keep_fair(&self, due: &mut Vec<DeliveryKey>) -> bool {
        let found = due.len();
        let mut room: HashMap<Target, usize> = HashMap::new();
        due.retain(|key| match key.to {
            DeliveryTarget::Mail(_) | DeliveryTarget::Callback | DeliveryTarget::Digest(_) => true,
            DeliveryTarget::Webhook(_) | DeliveryTarget::Chat(_) => {
                let target = target_of(key);
                let left = room.entry(target.clone());
                let left = left.or_insert_with(|| self.post.room_of(&target));
                let has_room = *left > 0;
                *left = left.saturating_sub(1);
                has_room
            }
        });
        due.len() < found
    }
}

impl Sweep<Notification> for DueDeliveries {
    const NAME: &'static str = "due_deliveries";
    const EVERY: Duration = Duration::from_secs(1);

    fn page<'a>(
        &'a mut self,
        db: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<Notification>, StoreError>> {
        async move {
            let begun = self.wake.begun();
            let since = *self.since.get_or_insert_with(Instant::now);
            let busy = self.post.busy();
            let mut inputs = Vec::new();
            let mut is_done = busy.is_empty();
            // A target with a long backlog may have filled the page. It is busy once its calls are claimed, so the
            // next page holds the deliveries of others.
            let mut has_others = false;
            // At rest, one query looks at all channels.
            let is_at_rest =
                busy.is_empty() && !store::any_due(db, &CHANNELS, self.clock.now()).await?;
            for channel in CHANNELS.into_iter().filter(|_| !is_at_rest) {
                let skipped: Vec<_> = busy
                    .iter()
                    .filter(|(_, to)| to.channel() == channel)
                    .cloned()
                    .collect();
                let mut due = store::due(db, channel, self.clock.now(), &skipped, DUE_MAX).await?;
                due.retain(|key| !self.post.is_at_work(key));
                is_done &= due.is_empty();
                has_others |= self.keep_fair(&mut due);
                due.truncate(self.post.room(channel));
                inputs.extend(due.into_iter().map(Input::ClaimDelivery));
            }
            if is_done || since.elapsed() > SETTLE_WITHIN {
                self.since = None;
                self.wake.end(begun);
            }
            let more = has_others && !inputs.is_empty();
            Ok(SweepPage::of_inputs(inputs, more))
        }
        .boxed()
    }
}
