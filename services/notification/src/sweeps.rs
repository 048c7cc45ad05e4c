//! What the notification service looks for in its tables from time to time: facts whose people are
//! not all told, and deliveries that are due. It decides nothing: what it finds becomes an input.

mod digesting;
mod forgetting;
mod run_end_watches;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_clock::Clock;
use holdpoint_contracts::notification::Channel;
use holdpoint_kernel::{KernelStatus, Sweep, SweepPage, SweepTrigger};
use holdpoint_store::StoreError;
use holdpoint_user_directory::UserDirectory;
use sea_orm::DatabaseConnection;

use crate::Notification;
use crate::domain::{DeliveryKey, Input, Recipient};
use crate::sending::Post;
use crate::store;

pub(crate) use digesting::Digesting;
pub(crate) use forgetting::Forgetting;
pub(crate) use run_end_watches::RunEndWatches;

/// Facts of one page of the sweep: each tells as many people as one commit takes.
const FACTS: u64 = 4;

/// The same of ends of runs: they mostly have few who watch, and may be many.
const ENDS: u64 = 20;

/// Deliveries that are looked at in one pass: more than the pool takes.
const DUE_MAX: u64 = 100;

/// How long who is who is asked for; what has come until then stays, and the next pass goes on.
const ASK_WITHIN: Duration = Duration::from_secs(5);

/// Whether more is known to come: whoever moves the clock waits for it.
#[derive(Debug, Default)]
pub(crate) struct Wake {
    counts: Mutex<Counts>,
    sweep: OnceLock<(SweepTrigger, KernelStatus)>,
}

/// Commits that left something to do, and as many of them as are through.
#[derive(Debug, Default)]
struct Counts {
    wanted: u64,
    done: u64,
}

impl Wake {
    /// Something was committed that the sweep goes on with at once.
    pub(crate) fn begin(&self) {
        let Some((nudge, activity)) = self.sweep.get() else {
            return;
        };
        let mut counts = self.counts();
        counts.wanted += 1;
        activity.begin();
        drop(counts);
        nudge.now();
    }

    fn wanted(&self) -> u64 {
        self.counts().wanted
    }

    /// All that was wanted at the beginning of a look is through.
    fn end(&self, wanted: u64) {
        let Some((_, activity)) = self.sweep.get() else {
            return;
        };
        let mut counts = self.counts();
        while counts.done < wanted {
            counts.done += 1;
            activity.end();
        }
    }

    /// From here on commits wake the sweep.
    pub(crate) fn wakes(&self, nudge: SweepTrigger, activity: KernelStatus) {
        drop(self.sweep.set((nudge, activity)));
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells people, page by page.
pub(crate) struct Telling {
    pub(crate) wake: Arc<Wake>,
    pub(crate) people: UserDirectory,
    /// Of facts of requests.
    pub(crate) facts: store::Turns,
    /// Of ends of runs.
    pub(crate) ends: store::Turns,
}

impl Telling {
    async fn page(
        &mut self,
        db: &DatabaseConnection,
    ) -> Result<SweepPage<Notification>, StoreError> {
        let wanted = self.wake.wanted();
        let facts = self.facts.next(db, FACTS).await?;
        let ends = self.ends.next(db, ENDS).await?;
        let mut page = SweepPage {
            more: false,
            inputs: Vec::new(),
            messages: Vec::new(),
        };
        if facts.is_empty() && ends.is_empty() {
            self.wake.end(wanted);
        } else if self.knows_everybody().await {
            page.more = true;
            let ends = ends.into_iter().map(Input::EndGoesOn);
            page.inputs = facts.into_iter().map(Input::GoOn).chain(ends).collect();
        }
        Ok(page)
    }

    /// Somebody who was made, or got a role, before they were asked must be told: whom the copy does not
    /// know would be left out for good. So nobody is told by a copy that may be behind.
    async fn knows_everybody(&self) -> bool {
        let refreshed = tokio::time::timeout(ASK_WITHIN, self.people.refresh()).await;
        let is_current = matches!(refreshed, Ok(Ok(())));
        if !is_current {
            tracing::warn!("who is who cannot be asked for: people are told when it can");
        }
        is_current
    }
}

impl Sweep<Notification> for Telling {
    const NAME: &'static str = "telling";
    const EVERY: Duration = Duration::from_secs(5);

    fn page<'a>(
        &'a mut self,
        db: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<Notification>, StoreError>> {
        async move { self.page(db).await }.boxed()
    }
}

/// How long whoever moves the clock waits for deliveries that are due, in real time.
const SETTLE_WITHIN: Duration = Duration::from_secs(5);

/// Hands out what is due, as much as the pool takes; what came of it wakes it again.
pub(crate) struct Delivering {
    pub(crate) wake: Arc<Wake>,
    pub(crate) post: Arc<Post>,
    pub(crate) clock: Clock,
    /// Since when somebody may be waiting.
    pub(crate) since: Option<Instant>,
}

impl Delivering {
    async fn page(
        &mut self,
        db: &DatabaseConnection,
    ) -> Result<SweepPage<Notification>, StoreError> {
        let wanted = self.wake.wanted();
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
            inputs.extend(due.into_iter().map(Input::Claim));
        }
        if is_done || since.elapsed() > SETTLE_WITHIN {
            self.since = None;
            self.wake.end(wanted);
        }
        Ok(SweepPage {
            more: false,
            inputs,
            messages: Vec::new(),
        })
    }
}

impl Delivering {
    /// Leaves as many calls of one webhook or chat as it may have at a time.
    fn keep_fair(&self, due: &mut Vec<DeliveryKey>) {
        let mut room: HashMap<Recipient, usize> = HashMap::new();
        due.retain(|key| match key.to {
            Recipient::Mail(_) | Recipient::Callback | Recipient::Digest(_) => true,
            Recipient::Webhook(_) | Recipient::Chat(_) => {
                let left = room.entry(key.to.clone());
                let left = left.or_insert_with(|| self.post.room_of(&key.to));
                let has_room = *left > 0;
                *left = left.saturating_sub(1);
                has_room
            }
        });
    }
}

impl Sweep<Notification> for Delivering {
    const NAME: &'static str = "delivering";
    const EVERY: Duration = Duration::from_secs(1);

    fn page<'a>(
        &'a mut self,
        db: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<Notification>, StoreError>> {
        async move { self.page(db).await }.boxed()
    }
}
