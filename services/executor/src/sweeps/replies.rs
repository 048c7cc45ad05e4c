//! Ends waits for a reply.
//!
//! A commit wakes the sweep with a contact: it has replied, or a run begins to wait for its reply. Whichever commit is
//! the later one, the sweep then finds both. A pass over all waiting runs finds what a killed replica has left.
//! The sweep decides nothing: a run that is woken looks at its contact itself.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_ids::RunId;
use holdpoint_kernel::{Sweep, SweepPage};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;
use tokio::time::Instant;

use crate::domain::contact::has_replied;
use crate::domain::{Input, RunInput};
use crate::executor::Executor;
use crate::store::{self, AwaitedReply, ContactKey};
use crate::woken_keys::WokenKeys;

/// Most contacts of one page.
const PAGE_CONTACTS: usize = 100;

/// Most runs of one page.
const PAGE_RUNS: u64 = 500;

/// Real time between two passes over all waiting runs. A commit wakes the sweep of its own replica, so a pass only
/// finds what a killed replica has left.
const ALL_EVERY: Duration = Duration::from_mins(1);

pub(super) struct Replies {
    woken: Arc<WokenKeys<ContactKey>>,
    /// The last run of the pass over all waiting runs.
    after: Option<RunId>,
    /// When that pass is due next.
    due: Option<Instant>,
}

impl Replies {
    pub(super) const fn new(woken: Arc<WokenKeys<ContactKey>>) -> Self {
        Self {
            woken,
            after: None,
            due: None,
        }
    }

    async fn next_page(
        &mut self,
        db: &DatabaseConnection,
    ) -> Result<SweepPage<Executor>, StoreError> {
        let begun = self.woken.pending.begun();
        let woken = self.woken.take(PAGE_CONTACTS);
        if !woken.is_empty() {
            let waiting = store::awaiting_reply_of(db, &woken, PAGE_RUNS).await?;
            if is_full(&waiting) {
                // The others are found by a pass over all waiting runs.
                self.due = None;
            }
            return Ok(SweepPage::of_inputs(inputs(db, waiting).await?, true));
        }
        self.woken.pending.end(begun);
        if self.due.is_some_and(|due| Instant::now() < due) {
            return Ok(SweepPage::of_inputs(Vec::new(), false));
        }
        let waiting = store::awaiting_reply(db, self.after, PAGE_RUNS).await?;
        let has_more = is_full(&waiting);
        self.after = waiting.last().map(|it| it.run).filter(|_| has_more);
        if !has_more {
            self.due = Some(Instant::now() + ALL_EVERY);
        }
        Ok(SweepPage::of_inputs(inputs(db, waiting).await?, has_more))
    }
}

impl Sweep<Executor> for Replies {
    const NAME: &'static str = "replies";
    const EVERY: Duration = ALL_EVERY;

    fn page<'a>(
        &'a mut self,
        db: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<Executor>, StoreError>> {
        self.next_page(db).boxed()
    }
}

/// Whether there may be more runs than a page has.
fn is_full(page: &[AwaitedReply]) -> bool {
    u64::try_from(page.len()).unwrap_or(u64::MAX) >= PAGE_RUNS
}

/// Wakes the runs whose contact has replied.
async fn inputs(
    db: &DatabaseConnection,
    waiting: Vec<AwaitedReply>,
) -> Result<Vec<Input>, StoreError> {
    let keys: HashSet<_> = waiting.iter().map(|it| it.contact.clone()).collect();
    let keys: Vec<_> = keys.into_iter().collect();
    let contacts = store::contacts_with_keys(db, &keys).await?;
    let replied = contacts.into_iter();
    let replied = replied.filter(|contact| !contact.deleted && has_replied(&contact.fields));
    let replied: HashSet<_> = replied.map(|it| (it.workspace, it.id)).collect();
    let woken = waiting
        .into_iter()
        .filter(|it| replied.contains(&it.contact));
    let inputs = woken.map(|it| Input::Run {
        workspace: it.contact.0,
        run: it.run,
        input: RunInput::ContactReplied,
    });
    Ok(inputs.collect())
}
