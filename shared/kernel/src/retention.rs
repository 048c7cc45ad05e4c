//! The sweep that finds what is past its retention (S0-NFR, B-11). The service deletes it, a page for each input.

use std::marker::PhantomData;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use holdpoint_clock::Clock;
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::service::{InputOf, Service};
use crate::start::{Deps, Handle};
use crate::sweeps::{Sweep, SweepPage, start_sweep};

/// A service with rows that are deleted some time after they have ended.
pub trait Expiring: Service {
    /// Whether anything ended before an instant.
    fn has_expired(
        db: &DatabaseConnection,
        before: DateTime<Utc>,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// The input that deletes one page of what ended before an instant.
    fn delete_expired(before: DateTime<Utc>) -> InputOf<Self>;
}

struct Retention<S> {
    clock: Clock,
    kept_for: TimeDelta,
    service: PhantomData<fn() -> S>,
}

impl<S: Expiring> Sweep<S> for Retention<S> {
    const NAME: &'static str = "retention";
    const EVERY: Duration = Duration::from_secs(5);

    fn page<'a>(
        &'a mut self,
        db: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<S>, StoreError>> {
        async move {
            let before = self.clock.now() - self.kept_for;
            let more = S::has_expired(db, before).await?;
            Ok(SweepPage::of_inputs(
                more.then(|| S::delete_expired(before)),
                more,
            ))
        }
        .boxed()
    }
}

/// Deletes what ended longer than `deps.kept_for` ago, until `stop`.
pub fn start_retention<S: Expiring>(
    handle: &Handle<S>,
    deps: &Deps,
    db: &DatabaseConnection,
    stop: &CancellationToken,
    tracker: &TaskTracker,
) {
    let sweep = Retention {
        clock: deps.clock.clone(),
        kept_for: deps.kept_for,
        service: PhantomData,
    };
    start_sweep(handle, db.clone(), sweep, stop.clone(), tracker);
}
