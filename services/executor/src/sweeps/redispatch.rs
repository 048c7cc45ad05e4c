//! Publishes dispatches again that no worker has started, so that a wiped or truncated stream costs only time. If no
//! live node offers the tool of a step, it makes one run of its workspace ask people.
//!
//! A message is built from the rows of the step and the run and never read from the bus. Time is counted
//! in passes, so that a moved test clock cannot flood the queues.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_contracts::steps::{NodeStatus, StepDispatch};
use holdpoint_ids::{RunId, ToolName, Workspace};
use holdpoint_kernel::{Sweep, SweepPage};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;
use serde_json::Value;

use crate::domain::run::ToolInvocation;
use crate::domain::tool::is_built_in;
use crate::domain::{Fact, Input, Need, Run, RunInput, StepRow, Tool};
use crate::executor::Executor;
use crate::{outbound, store};

const PAGE: u64 = 1_000;

/// Dispatches that are counted; further ones are counted after some of these have started.
const COUNTED_MAX: usize = 200_000;

/// Passes between two repetitions at most: 10 minutes.
const PASSES_MAX: u32 = 30;

/// The pass from which a tool is looked up that no worker has started: after 5 minutes. A node that restarts is back
/// by then.
const MISSING_PASSES: u32 = 16;

/// Nodes that are looked at. With more of them, no tool is taken as missing.
const NODES_MAX: u64 = 500;

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
    /// The queued step that asks people, for each tool that no node offers.
    asking: HashMap<(Workspace, ToolName), Place>,
}

impl Redispatch {
    pub(super) fn new(service: Executor) -> Self {
        Self {
            service,
            after: None,
            passes: HashMap::new(),
            counted: HashMap::new(),
            asking: HashMap::new(),
        }
    }

    /// Makes runs ask people about tools that no live node offers.
    async fn ask_about_missing_tools(
        &mut self,
        db: &DatabaseConnection,
        out: &[(StepDispatch, bool)],
    ) -> Result<Vec<Input>, StoreError> {
        let needs_node =
            |out: &&StepDispatch| out.http.is_none() && !is_built_in(out.tool.as_str());
        let late = out.iter().map(|(out, _)| out).filter(needs_node);
        let late: Vec<_> = late.filter(|out| self.is_late(out)).collect();
        if late.is_empty() {
            return Ok(Vec::new());
        }
        let nodes = store::list_nodes(db, NODES_MAX).await?;
        if nodes.len() >= usize::try_from(NODES_MAX).unwrap_or(usize::MAX) {
            return Ok(Vec::new());
        }
        let live = nodes.iter().filter(|node| node.status != NodeStatus::Down);
        let offered: BTreeSet<_> = live.flat_map(|node| &node.tools).collect();
        let missing = late.into_iter().filter(|out| !offered.contains(&out.tool));
        Ok(missing.filter_map(|out| self.ask(out)).collect())
    }

    fn is_late(&self, out: &StepDispatch) -> bool {
        let place = place(out);
        let passes = self.counted.get(&place).or_else(|| self.passes.get(&place));
        passes.is_some_and(|passes| *passes >= MISSING_PASSES)
    }

    /// One run for each workspace and tool asks, and not each of a thousand. Another one follows when it no longer
    /// waits. The run ignores a repetition.
    fn ask(&mut self, out: &StepDispatch) -> Option<Input> {
        let key = (out.workspace.clone(), out.tool.clone());
        let asking = self.asking.entry(key).or_insert_with(|| place(out));
        (*asking == place(out)).then(|| Input::Run {
            workspace: out.workspace.clone(),
            run: out.run,
            input: RunInput::ToolMissing {
                step: out.step.clone(),
                dispatch: out.dispatch,
                tool: out.tool.clone(),
            },
        })
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

    fn end_pass(&mut self) {
        self.passes = std::mem::take(&mut self.counted);
        let passes = &self.passes;
        self.asking.retain(|_, place| passes.contains_key(place));
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
            self.end_pass();
        }
        let out = step_dispatches(db, due).await?;
        if !out.is_empty() {
            tracing::info!(
                steps = out.len(),
                "no worker has started these steps; published again"
            );
        }
        let inputs = self.ask_about_missing_tools(db, &out).await?;
        let now = self.service.clock.now();
        let messages = out
            .iter()
            .filter_map(|(out, _)| outbound::step_dispatch(&self.service, out, now));
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

fn place(out: &StepDispatch) -> Place {
    (out.run, out.step.clone(), out.dispatch)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbound::tests::{executor, out};

    fn dispatch(workspace: &str, tool: &str) -> StepDispatch {
        StepDispatch {
            workspace: workspace.parse().unwrap(),
            tool: tool.parse().unwrap(),
            run: RunId::fresh(),
            ..out()
        }
    }

    /// Gate 1: people hear of a missing tool once, however many runs wait for it.
    #[test]
    fn one_run_of_a_workspace_asks_about_a_tool() {
        let mut sweep = Redispatch::new(executor());
        let waiting = [
            dispatch("acme", "own.pay"),
            dispatch("acme", "own.pay"),
            dispatch("acme", "own.ship"),
            dispatch("other", "own.pay"),
        ];
        let pass = |sweep: &mut Redispatch, from: usize| {
            for out in &waiting[from..] {
                let passes = sweep.passes.get(&place(out)).map_or(1, |passes| passes + 1);
                sweep.counted.insert(place(out), passes);
            }
            let late = waiting[from..].iter().filter(|out| sweep.is_late(out));
            let late: Vec<_> = late.cloned().collect();
            let asking = late
                .iter()
                .filter_map(|out| sweep.ask(out))
                .map(|input| match input {
                    Input::Run { run, .. } => run,
                    other => panic!("{other:?}"),
                });
            let asking: Vec<_> = asking.collect();
            sweep.end_pass();
            asking
        };
        for _ in 1..MISSING_PASSES {
            assert_eq!(pass(&mut sweep, 0), []);
        }
        let [first, second, ship, other] = waiting.each_ref().map(|out| out.run);
        assert_eq!(pass(&mut sweep, 0), [first, ship, other]);
        assert_eq!(pass(&mut sweep, 0), [first, ship, other]);
        // The first one has started.
        assert_eq!(pass(&mut sweep, 1), [ship, other]);
        assert_eq!(pass(&mut sweep, 1), [second, ship, other]);
    }
}
