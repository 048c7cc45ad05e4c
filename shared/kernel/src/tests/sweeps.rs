//! Sweeps: pages, passes, and waking one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_store::StoreError;
use holdpoint_testkit::until;
use sea_orm::DatabaseConnection;

use super::counter::{Counter, Input};
use super::{PATIENCE, World, counts};
use crate::{Sweep, SweepPage, start_sweep};

/// Adds one a page, two pages a pass; its first page fails.
struct Adding(Arc<AtomicU32>);

impl Sweep<Counter> for Adding {
    const NAME: &'static str = "adding";
    /// Only a nudge can bring the next pass within the test.
    const EVERY: Duration = Duration::from_secs(3_600);

    fn page<'a>(
        &'a mut self,
        _: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<Counter>, StoreError>> {
        let page = self.0.fetch_add(1, Ordering::AcqRel);
        async move {
            if page == 0 {
                return Err(StoreError::broken("counters", "the first page"));
            }
            let input = Input {
                name: "swept".to_owned(),
                by: 1,
            };
            Ok(SweepPage {
                inputs: vec![input],
                messages: Vec::new(),
                more: page % 2 == 1,
            })
        }
        .boxed()
    }
}

#[tokio::test]
async fn a_sweep_reads_its_pages_at_the_start_and_when_triggered() {
    let world = World::with_stream().await;
    let kernel = world.start().await;
    let pages = Arc::new(AtomicU32::new(0));
    let sweep = Adding(Arc::clone(&pages));
    let (stop, tracker) = (kernel.stop.clone(), &kernel.tracker);
    let nudge = start_sweep(&kernel.handle, world.db.clone(), sweep, stop, tracker);
    let failed = async || (pages.load(Ordering::Acquire) == 1).then_some(());
    until(PATIENCE, "the first pass", failed).await.unwrap();
    for swept in [2, 4] {
        nudge.now();
        let expected = counts(&[("swept", swept)]);
        let seen = async || (world.counts().await == expected).then_some(());
        until(PATIENCE, "a pass", seen).await.unwrap();
    }
    assert_eq!(pages.load(Ordering::Acquire), 5);
    kernel.stop().await;
}

/// Finds the same for ever: nothing that it submits moves anything.
struct Stuck(Arc<AtomicU32>);

impl Sweep<Counter> for Stuck {
    const NAME: &'static str = "stuck";
    const EVERY: Duration = Duration::from_secs(3_600);

    fn page<'a>(
        &'a mut self,
        _: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<Counter>, StoreError>> {
        self.0.fetch_add(1, Ordering::AcqRel);
        let page = SweepPage {
            inputs: Vec::new(),
            messages: Vec::new(),
            more: true,
        };
        async move { Ok(page) }.boxed()
    }
}

/// Mend B-12: what no decision can move does not take a core.
#[tokio::test]
async fn a_pass_without_progress_ends() {
    let world = World::with_stream().await;
    let kernel = world.start().await;
    let pages = Arc::new(AtomicU32::new(0));
    let (stop, tracker) = (kernel.stop.clone(), &kernel.tracker);
    let sweep = Stuck(Arc::clone(&pages));
    let nudge = start_sweep(&kernel.handle, world.db.clone(), sweep, stop, tracker);
    for most in [100, 200] {
        let ended = async || (pages.load(Ordering::Acquire) == most).then_some(());
        until(PATIENCE, "the end of a pass", ended).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(pages.load(Ordering::Acquire), most);
        nudge.now();
    }
    kernel.stop().await;
}
