//! Publishes dispatches again that nobody has confirmed: a wiped or truncated stream costs time only.
//!
//! A message is built from the step's row and the run, never looked up on the bus. Time is counted
//! in passes, so that no clock that a user moves can flood the queues.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_contracts::steps::StepDispatch;
use holdpoint_ids::{RunId, ToolName, Workspace};
use holdpoint_kernel::{Sweep, SweepPage};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;
use serde_json::Value;

use crate::domain::run::ToolInvocation;
use crate::domain::tool::is_built_in;
use crate::domain::{Fact, Need, Run, StepRow, Tool};
use crate::{Executor, outbound, store};

/// Steps of one page.
const PAGE: u64 = 1_000;

/// Hand-outs that are counted; further ones are counted when those are confirmed.
const COUNTED_MAX: usize = 200_000;

/// Passes between two repetitions at last: 10 minutes.
const PASSES_MAX: u32 = 30;

/// Names one dispatch.
type Place = (RunId, String, u64);

/// Answers of people, by run and name of the value.
type Given = HashMap<(RunId, String), Arc<Value>>;

/// The sweep of dispatches.
#[derive(Debug)]
pub(super) struct HandOuts {
    service: Executor,
    /// The last step of the page before; none at the beginning of a pass.
    after: Option<(RunId, String)>,
    /// In how many passes a dispatch was found unconfirmed.
    passes: HashMap<Place, u32>,
    /// The same, of the pass that is under way.
    counted: HashMap<Place, u32>,
}

impl HandOuts {
    pub(super) fn new(service: Executor) -> Self {
        Self {
            service,
            after: None,
            passes: HashMap::new(),
            counted: HashMap::new(),
        }
    }

    /// Counts a dispatch; whether it is to be published again now.
    fn is_due(&mut self, row: &StepRow) -> bool {
        if self.counted.len() >= COUNTED_MAX {
            return false;
        }
        let place = (row.run, row.step.clone(), row.dispatch);
        let passes = self.passes.get(&place).map_or(1, |passes| passes + 1);
        self.counted.insert(place, passes);
        is_turn(passes)
    }

    async fn lookup(&mut self, db: &DatabaseConnection) -> Result<SweepPage<Executor>, StoreError> {
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
                "dispatched again: nobody has confirmed them"
            );
        }
        let now = self.service.clock.now();
        let key = &self.service.keys.steps;
        let messages = out
            .iter()
            .filter_map(|out| outbound::step_dispatch(out, key, now));
        Ok(SweepPage {
            inputs: Vec::new(),
            messages: messages.collect(),
            more,
        })
    }
}

impl Sweep<Executor> for HandOuts {
    const NAME: &'static str = "hand-outs";
    const EVERY: Duration = Duration::from_secs(20);

    fn page<'a>(
        &'a mut self,
        db: &'a DatabaseConnection,
    ) -> BoxFuture<'a, Result<SweepPage<Executor>, StoreError>> {
        self.lookup(db).boxed()
    }
}

/// After 20 s, doubling to 10 minutes: the second pass that finds it, the fourth, the eighth, ….
pub(super) const fn is_turn(passes: u32) -> bool {
    (passes >= 2 && passes < PASSES_MAX && passes.is_power_of_two())
        || (passes >= PASSES_MAX && passes.is_multiple_of(PASSES_MAX))
}

/// The dispatches of queued steps, made again from what is stored. What is paused, over or queued
/// under another number by now is left out.
pub(crate) async fn step_dispatches(
    db: &DatabaseConnection,
    rows: Vec<StepRow>,
) -> Result<Vec<StepDispatch>, StoreError> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let mut ids: Vec<_> = rows.iter().map(|row| row.run).collect();
    ids.sort();
    ids.dedup();
    let runs = store::runs(db, &ids).await?;
    let runs: HashMap<_, _> = runs
        .iter()
        .filter(|run| run.moves())
        .map(|run| (run.id, run))
        .collect();
    let names: Vec<_> = rows
        .iter()
        .filter_map(|row| named(row, runs.get(&row.run)?))
        .collect();
    let mut wanted: BTreeMap<&Workspace, Vec<&ToolName>> = BTreeMap::new();
    for (workspace, name) in &names {
        if !is_built_in(name.as_str()) {
            wanted.entry(workspace).or_default().push(name);
        }
    }
    let tools = store::tools(db, &wanted).await?;
    let answers = answers(db, runs.values().copied()).await?;
    let made = rows.into_iter().filter_map(|row| {
        let run = runs.get(&row.run)?;
        again(run, row, (&tools, &answers))
    });
    Ok(made.collect())
}

/// What people have answered to the tools of these runs.
async fn answers<'r>(
    db: &DatabaseConnection,
    runs: impl Iterator<Item = &'r Run>,
) -> Result<Given, StoreError> {
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

fn named<'r>(row: &StepRow, run: &&'r Run) -> Option<(&'r Workspace, ToolName)> {
    Some((&run.workspace, row.tool.as_deref()?.parse().ok()?))
}

fn again(run: &Run, row: StepRow, (tools, given): (&[Tool], &Given)) -> Option<StepDispatch> {
    let step = run
        .steps
        .iter()
        .find(|step| step.id == row.step && step.dispatch == row.dispatch)?;
    let name: ToolName = row.tool?.parse().ok()?;
    let is_it = |tool: &&Tool| tool.workspace == run.workspace && tool.spec.name == name;
    let http = tools.iter().find(is_it).map(|tool| tool.spec.http.clone());
    let find = |name: &str| given.get(&(run.id, name.to_owned())).cloned();
    let called = ToolInvocation {
        tool: name,
        args: row.request?,
        http,
        answers: step.questions.answers(find),
    };
    run.step_dispatch(step, called)
}
