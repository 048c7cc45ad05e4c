//! Finds requests that are past their retention (S0-NFR, B-11).

use std::time::Duration;

use chrono::TimeDelta;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_clock::Clock;
use holdpoint_kernel::{Sweep, SweepPage};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;

use crate::domain::Input;
use crate::service::Handoff;
use crate::store;

pub(crate) struct Retention {
    pub(crate) clock: Clock,
    /// How long a request without a person is kept after its end.
    pub(crate) kept_for: TimeDelta,
}

impl Sweep<Handoff> for Retention {
    const NAME: &'static str = "retention";
    const EVERY: Duration = Duration::from_secs(10);

    fn page<'a>(
        &'a mut self,
        db: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<Handoff>, StoreError>> {
        async move {
            let before = self.clock.now() - self.kept_for;
            let more = store::has_expired(db, before).await?;
            let input = more.then_some(Input::DeleteExpired { before });
            Ok(SweepPage::of_inputs(input, more))
        }
        .boxed()
    }
}
