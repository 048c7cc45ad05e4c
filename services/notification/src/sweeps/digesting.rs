//! Looks for people who are to be mailed of what is open.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_clock::Clock;
use holdpoint_kernel::{Sweep, SweepPage};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;

use crate::Notification;
use crate::domain::Input;
use crate::store;

/// People of one pass; many want it at the same hour.
const PEOPLE: u64 = 200;

/// Has digests made.
pub(crate) struct Digesting {
    pub(crate) clock: Clock,
}

impl Digesting {
    async fn page(
        &mut self,
        db: &DatabaseConnection,
    ) -> Result<SweepPage<Notification>, StoreError> {
        let due = store::digests(db, self.clock.now(), PEOPLE).await?;
        let inputs = due
            .into_iter()
            .map(|(workspace, person)| Input::Digest { workspace, person });
        let inputs: Vec<_> = inputs.collect();
        Ok(SweepPage {
            more: !inputs.is_empty(),
            inputs,
            messages: Vec::new(),
        })
    }
}

impl Sweep<Notification> for Digesting {
    const NAME: &'static str = "digesting";
    const EVERY: Duration = Duration::from_secs(5);

    fn page<'a>(
        &'a mut self,
        db: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<Notification>, StoreError>> {
        async move { self.page(db).await }.boxed()
    }
}
