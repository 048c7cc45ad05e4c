//! Publishes dispatches again that no worker has started, so that a wiped or truncated stream costs only time.
//!
//! A message is built from the rows of the step and the run and never read from the bus. Time is counted
//! in passes, so that a moved test clock cannot flood the queues.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_contracts::steps::StepDispatch;
use holdpoint_ids::{RunId, ToolName};
use holdpoint_kernel::{Sweep, SweepPage};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;
use serde_json::Value;

use crate::domain::run::ToolInvocation;
use crate::domain::tool::is_built_in;
use crate::domain::{Fact, Need, Run, StepRow, Tool};
use crate::executor::Executor;
use crate::{outbound, store};

const PAGE: u64 = 1_000;

/// Dispatches that are counted; further ones are counted after some of these have started.
const COUNTED_MAX: usize = 200_000;

/// Passes between two repetitions at most: 10 minutes.
const PASSES_MAX: u32 = 30;

type Place = (RunId, String, u64);

/// Answers of users, by run and name of the value.
type Answers = HashMap<(RunId, String), Arc<Value>>;

#[derive(Debug)]
pub(super) struct Redispatch {
    service: Executor,
    /// The last step of the previous page; absent at the beginning of a pass.
    after: Option<(RunId, String)>,
    /// The number of passes that found a dispatch without a grant.
    passes: HashMap<Place, u32>,
    /// The same for the current pass.
    counted: HashMap<Place, u32>,
}

impl Redispatch {
    pub(super) fn new(service: Executor) -> Self {
        Self {
            service,
            after: None,
            passes: HashMap::new(),
            counted: HashMap::new(),
        }
    }

    /// Counts a dispatch; returns whether it is published again now.
    fn is_due(&mut self, row: &StepRow) -> bool {
        if self.counted.len() >= COUNTED_MAX {
            return false;
        }
        let place = (row.run, row.step.clone(), row.dispatch);
        let passes = self.passes.get(&place).map_or(1, |passes| passes + 1);
        self.counted.insert(place, passes);
        is_due_in(passes)
    }

    async fn read_page(
        &mut self,
        db: &DatabaseConnection,
    ) -> Result<SweepPage<Executor>, StoreError> {
        let after = self.after.as_ref().map(|(run, step)| (*run, step.as_str()));
        let rows = store::queued_steps(db, after, &[], PAGE).await?;
        let more = rows.len() >= usize::try_from(PAGE).unwrap_or(usize::MAX);
        self.after = rows
            .last()
            .filter(|_| more)
            .map(|row| (row.run, row.step.clone()));
        let due: Vec<_> = rows.into_iter().filter(|row| self.is_due(row)).collect();
        if !more {
            self.passes = std::mem::take(&mut self.counted);
        }
        let out = step_dispatches(db, due).await?;
        if !out.is_empty() {
            tracing::info!(
                steps = out.len(),
                "no worker has started these steps; published again"
            );
        }
        let now = self.service.clock.now();
        let messages = out
            .iter()
            .filter_map(|(out, _)| outbound::step_dispatch(&self.service, out, now));
        Ok(SweepPage {
            inputs: Vec::new(),
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

/// Builds the dispatches of queued steps again from rows. Steps of paused or ended runs and steps with
/// another dispatch number by now are left out. Each has whether its tool may run twice: a gated step says so to no
/// worker.
pub(crate) async fn step_dispatches(
    db: &DatabaseConnection,
    rows: Vec<StepRow>,
) -> Result<Vec<(StepDispatch, bool)>, StoreError> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let mut ids: Vec<_> = rows.iter().map(|row| row.run).collect();
    ids.sort();
    ids.dedup();
    let runs = store::runs(db, &ids).await?;
    let runs: HashMap<_, _> = runs
        .iter()
        .filter(|run| run.may_call())
        .map(|run| (run.id, run))
        .collect();
    let names: BTreeSet<_> = rows
        .iter()
        .filter_map(|row| Some((&runs.get(&row.run)?.workspace, tool_name(row)?)))
        .filter(|(_, name)| !is_built_in(name.as_str()))
        .collect();
    let names: Vec<_> = names.into_iter().collect();
    let tools = store::tools(db, &names).await?;
    let answers = answers(db, runs.values().copied()).await?;
    let made = rows.into_iter().filter_map(|row| {
        let run = runs.get(&row.run)?;
        rebuild_dispatch(run, row, &tools, &answers)
    });
    Ok(made.collect())
}

/// The answers of users to the tools of these runs.
async fn answers<'r>(
    db: &DatabaseConnection,
    runs: impl Iterator<Item = &'r Run>,
) -> Result<Answers, StoreError> {
    let names = runs.flat_map(|run| {
        let names = run.steps.iter().flat_map(|it| it.questions.answer_names());
        names.map(|name| (run.id, name))
    });
    let names: Vec<_> = names.collect();
    let wanted: Vec<_> = names
        .iter()
        .map(|(run, name)| (*run, name.as_str()))
        .collect();
    let found = store::values(db, &wanted).await?;
    let found = found
        .into_iter()
        .filter_map(|(need, fact)| match (need, fact) {
            (Need::Value(run, name), Fact::Value(value)) => Some(((run, name), value)),
            _ => None,
        });
    Ok(found.collect())
}

fn tool_name(row: &StepRow) -> Option<ToolName> {
    row.tool.as_deref()?.parse().ok()
}

fn rebuild_dispatch(
    run: &Run,
    row: StepRow,
    tools: &[Tool],
    answers: &Answers,
) -> Option<(StepDispatch, bool)> {
    let step = run
        .steps
        .iter()
        .find(|step| step.id == row.step && step.dispatch == row.dispatch)?;
    let name = tool_name(&row)?;
    let is_it = |tool: &&Tool| tool.workspace == run.workspace && tool.spec.name == name;
    let http = tools
        .iter()
        .find(is_it)
        .and_then(|tool| tool.spec.http.clone());
    let find = |name: &str| answers.get(&(run.id, name.to_owned())).cloned();
    let called = ToolInvocation {
        tool: name,
        args: row.request?,
        http,
        answers: step.questions.answers(find),
    };
    let is_idempotent = step.phase.try_as_queued_ref()?.idempotent;
    Some((run.step_dispatch(step, called)?, is_idempotent))
}
