//! Finds people whose digests are due.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_clock::Clock;
use holdpoint_kernel::{Sweep, SweepPage};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;

use crate::Notification;
use crate::domain::Input;
use crate::store::{self, DigestPlace};

/// People of one page; many choose the same hour.
const PEOPLE: u64 = 200;

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
