//! Publishes dispatches again that no worker has started, so that a wiped or truncated stream costs only time. Their
//! tools are looked up at the nodes (see [`super::missing_tools`]).
//!
//! A message is built from the rows of the step and the run and never read from the bus. Time is counted
//! in passes, so that a moved test clock cannot flood the queues.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_ids::RunId;
use holdpoint_kernel::{Sweep, SweepPage};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;

use super::missing_tools::{MISSING_PASSES, MissingTools};
use super::queued_calls::{Place, place_of, step_dispatches};
use crate::domain::StepRow;
use crate::executor::Executor;
use crate::{outbound, store};

const PAGE: u64 = 1_000;

/// Dispatches that are counted; further ones are counted after some of these have started.
const COUNTED_MAX: usize = 200_000;

/// Passes between two repetitions at most: 10 minutes.
const PASSES_MAX: u32 = 30;

// A tool is looked up when a dispatch is due.
const _: () = assert!(is_due_in(MISSING_PASSES));

#[derive(Debug)]
pub(super) struct Redispatch {
    service: Executor,
    /// The last step of the previous page; absent at the beginning of a pass.
    after: Option<(RunId, String)>,
    /// The number of passes that found a dispatch without a grant.
    passes: HashMap<Place, u32>,
    /// The same for the current pass.
    counted: HashMap<Place, u32>,
    missing_tools: MissingTools,
}

impl Redispatch {
    pub(super) fn new(service: Executor) -> Self {
        Self {
            service,
            after: None,
            passes: HashMap::new(),
            counted: HashMap::new(),
            missing_tools: MissingTools::default(),
        }
    }

    /// Counts a dispatch; returns the passes if it is published again now.
    fn due_passes(&mut self, row: &StepRow) -> Option<u32> {
        if self.counted.len() >= COUNTED_MAX {
            return None;
        }
        let place = place_of(row);
        let passes = self.passes.get(&place).map_or(1, |passes| passes + 1);
        self.counted.insert(place, passes);
        is_due_in(passes).then_some(passes)
    }

    async fn read_page(
        &mut self,
        db: &DatabaseConnection,
    ) -> Result<SweepPage<Executor>, StoreError> {
        let mut inputs = Vec::new();
        if self.after.is_none() {
            inputs = self.missing_tools.begin_pass(db).await?;
        }
        let after = self.after.as_ref().map(|(run, step)| (*run, step.as_str()));
        let rows = store::queued_steps(db, after, &[], PAGE).await?;
        let more = rows.len() >= usize::try_from(PAGE).unwrap_or(usize::MAX);
        self.after = rows
            .last()
            .filter(|_| more)
            .map(|row| (row.run, row.step.clone()));
        let mut due = Vec::new();
        let mut passes = HashMap::new();
        for row in rows {
            if let Some(counted) = self.due_passes(&row) {
                passes.insert(place_of(&row), counted);
                due.push(row);
            }
        }
        let out = step_dispatches(db, due).await?;
        let late = out
            .iter()
            .map(|call| (call, passes.get(&call.place()).copied().unwrap_or(0)));
        inputs.extend(self.missing_tools.check(&late.collect::<Vec<_>>()));
        if !more {
            self.missing_tools
                .end_pass(|place| self.counted.contains_key(place));
            self.passes = std::mem::take(&mut self.counted);
        }
        if !out.is_empty() {
            tracing::info!(
                steps = out.len(),
                "no worker has started these steps; published again"
            );
        }
        let now = self.service.clock.now();
        let messages = out
            .iter()
            .filter_map(|call| outbound::step_dispatch(&self.service, &call.out, now));
        Ok(SweepPage {
            inputs,
            messages: messages.collect(),
            more,
        })
    }
}

impl Sweep<Executor> for Redispatch {
    const NAME: &'static str = "redispatch";
    const EVERY: Duration = Duration::from_secs(20);

    fn page<'a>(
        &'a mut self,
        db: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<Executor>, StoreError>> {
        self.read_page(db).boxed()
    }
}

/// The passes that publish again: the second, fourth, eighth and so on, then every 10 minutes.
pub(super) const fn is_due_in(passes: u32) -> bool {
    (passes >= 2 && passes < PASSES_MAX && passes.is_power_of_two())
        || (passes >= PASSES_MAX && passes.is_multiple_of(PASSES_MAX))
}
