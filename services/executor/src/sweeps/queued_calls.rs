//! The dispatches of queued steps, made again from rows.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use holdpoint_contracts::steps::StepDispatch;
use holdpoint_ids::{RunId, ToolName};
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;
use serde_json::Value;

use crate::domain::run::ToolInvocation;
use crate::domain::tool::is_built_in;
use crate::domain::{Fact, Need, Run, StepRow, Tool};
use crate::store;

/// A dispatch: the run, the step and the number.
pub(crate) type Place = (RunId, String, u64);

/// A queued step with its dispatch.
#[derive(Debug)]
pub(crate) struct QueuedCall {
    pub(crate) out: StepDispatch,
    /// Whether its tool may run twice. A gated step says so to no worker.
    pub(crate) is_idempotent: bool,
    /// Whether its run asks people about its tool.
    pub(crate) has_question: bool,
}

impl QueuedCall {
    pub(super) fn place(&self) -> Place {
        (self.out.run, self.out.step.clone(), self.out.dispatch)
    }
}

pub(crate) fn place_of(row: &StepRow) -> Place {
    (row.run, row.step.clone(), row.dispatch)
}

/// Answers of users, by run and name of the value.
type Answers = HashMap<(RunId, String), Arc<Value>>;

/// Builds the dispatches of queued steps again from rows. Steps of paused or ended runs and steps with
/// another dispatch number by now are left out.
pub(crate) async fn step_dispatches(
    db: &DatabaseConnection,
    rows: Vec<StepRow>,
) -> Result<Vec<QueuedCall>, StoreError> {
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
) -> Option<QueuedCall> {
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
    Some(QueuedCall {
        is_idempotent: step.phase.try_as_queued_ref()?.idempotent,
        has_question: step.missing_tool().is_some(),
        out: run.step_dispatch(step, called)?,
    })
}
