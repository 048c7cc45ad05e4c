//! Warns of what is doubtful in an agent: tools that no node offers or that nodes disagree about, arguments that do not
//! fit (D-5), unknown people and agents, and paths that lead nowhere.
//!
//! A query costs little whatever the workspace and the agent contain: it looks at [`CHECKED_MAX`] tools,
//! warns [`WARNINGS_MAX`] times at most, and compares spellings and schemas on a blocking thread.

mod paths;
mod plan;
mod runs;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use holdpoint_contracts::agent::PlannedStepView;
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::tool::{Risk, ToolOffer, ToolSpec};
use holdpoint_holds::json_schema::{join_errors, literal_errors};
use holdpoint_ids::{NodeName, ToolName, Workspace, nearest};
use serde_json::Value;

use super::query_error::QueryError;
use super::{COMPILE_WITHIN, ExecutorQueries};
use crate::domain::expression::{StepPaths, has_placeholder};
use crate::domain::model::built_in_schemas::built_in_args_schema;
use crate::domain::plan::Plan;
use crate::domain::tool::{BUILT_IN, is_built_in};
use crate::domain::{Tool, ToolEntry};
use crate::store;
use paths::{KnownFields, dead_paths};
use plan::{long_waits, skipped_references};
pub(super) use runs::agents_of;

/// Tools of one agent that are looked at; further ones get no warning.
const CHECKED_MAX: usize = 200;

/// Most names of fields of a workspace that are looked at. With more, a name is not known to be wrong.
const FIELDS_MAX: u64 = 1_000;

/// Warnings of one agent; further ones are left out.
const WARNINGS_MAX: usize = 100;

/// Warnings that name similar tools. The first ones suffice to see a misspelling.
const NEAREST_MAX: usize = 20;

/// Registered names that one unknown name is compared with, in their order. A similar name beyond them
/// is not suggested.
const COMPARED_MAX: u64 = 200;

impl ExecutorQueries {
    /// One warning for each tool that is neither built in nor an HTTP call nor offered by a live node, at the first
    /// step that calls it. The step waits until a node offers the tool, which may be intended. Then deleted tools, what
    /// nodes disagree about, and arguments that do not fit.
    async fn tool_warnings(
        &self,
        workspace: &Workspace,
        steps: &[PlannedStepView],
    ) -> Result<Vec<FieldError>, QueryError> {
        let mut seen = HashSet::new();
        let called: Vec<(&PlannedStepView, ToolName)> = steps
            .iter()
            .filter_map(|step| Some((step, step.tool.as_deref()?.parse::<ToolName>().ok()?)))
            .filter(|(_, tool)| !is_built_in(tool.as_str()) && seen.insert(tool.clone()))
            .take(CHECKED_MAX)
            .collect();
        if called.is_empty() {
            return Ok(Vec::new());
        }
        let offered = self.offered_tools().await?;
        let names = called.iter().map(|(_, tool)| tool.clone());
        let entries = self.tool_entries(workspace, names).await?;
        let unknown = called.iter().filter(|(_, tool)| {
            let is_call = |entry: &ToolEntry| entry.http().is_some() || entry.is_deleted();
            !offered.contains_key(tool) && !entries.get(tool).is_some_and(is_call)
        });
        let unknown = unknown.take(WARNINGS_MAX);
        let unknown = unknown.map(|(step, tool)| warning(&step.id, tool.as_str()));
        let mut warnings: Vec<_> = unknown.collect();
        if !warnings.is_empty() {
            let mut candidates: BTreeSet<String> = BUILT_IN.map(str::to_owned).into();
            let compared = usize::try_from(COMPARED_MAX).unwrap_or(usize::MAX);
            candidates.extend(offered.keys().take(compared).map(ToString::to_string));
            candidates.extend(store::tool_names(&self.db, workspace, COMPARED_MAX).await?);
            warnings = self.with_similar_names(warnings, candidates).await;
        }
        warnings.extend(called.iter().filter_map(|(step, tool)| {
            let is_deleted = entries.get(tool)?.is_deleted();
            let message =
                || format!("An operator has deleted the tool `{tool}`. A step on it fails.");
            is_deleted.then(|| at_step(&step.id, tool, message()))
        }));
        warnings.extend(called.iter().filter_map(|(step, tool)| {
            let (entry, nodes) = (entries.get(tool)?, offered.get(tool)?);
            disagreement(entry, nodes).map(|message| at_step(&step.id, tool, message))
        }));
        let schemas = entries.iter();
        let schemas = schemas
            .filter_map(|(name, entry)| Some((name.to_string(), entry.args_schema()?.clone())));
        warnings.extend(self.argument_warnings(steps, schemas.collect()).await);
        warnings.truncate(WARNINGS_MAX);
        Ok(warnings)
    }

    /// All that is doubtful in a plan, at most [`WARNINGS_MAX`] warnings.
    pub(super) async fn warnings(
        &self,
        workspace: &Workspace,
        plan: &Plan,
        steps: &[PlannedStepView],
    ) -> Result<Vec<FieldError>, QueryError> {
        let called = with_planned_tools(plan, steps);
        let mut warnings = self.tool_warnings(workspace, &called).await?;
        let built_in = BUILT_IN.into_iter();
        let schemas = built_in.filter_map(|it| Some((it.to_owned(), built_in_args_schema(it)?)));
        warnings.extend(self.argument_warnings(&called, schemas.collect()).await);
        warnings.extend(self.people_warnings(workspace, plan).await?);
        warnings.extend(self.run_warnings(workspace, plan).await?);
        let (plan, now) = (Arc::new(plan.clone()), self.clock.now());
        let of = Arc::clone(&plan);
        let paths = self.on_blocking_thread(move || of.named_paths()).await;
        let paths = paths.unwrap_or_default();
        let names_contact = paths.iter().any(StepPaths::names_contact);
        let entries = self.called_entries(workspace, &called).await?;
        let schemas = entries.iter().filter_map(|(name, entry)| {
            let schema = entry.result_schema()?.clone();
            Some((name.to_string(), schema))
        });
        let gated = entries.iter();
        let gated = gated.filter(|(_, entry)| entry.risk() == Risk::High);
        let gated: BTreeSet<String> = gated.map(|(name, _)| name.to_string()).collect();
        let known = KnownFields {
            results: schemas.collect(),
            contact: if names_contact {
                self.contact_fields(workspace).await?
            } else {
                None
            },
        };
        let found = self.on_blocking_thread(move || {
            let mut found = dead_paths(&plan, paths, &known, WARNINGS_MAX);
            found.extend(skipped_references(&plan, &gated));
            found.extend(long_waits(&plan, now));
            found
        });
        warnings.extend(found.await.unwrap_or_default());
        warnings.truncate(WARNINGS_MAX);
        Ok(warnings)
    }

    /// The entries of called tools that operators or nodes have registered.
    async fn called_entries(
        &self,
        workspace: &Workspace,
        steps: &[PlannedStepView],
    ) -> Result<BTreeMap<ToolName, ToolEntry>, QueryError> {
        let tools = steps.iter().filter_map(|step| step.tool.as_deref());
        let tools = tools.filter_map(|tool| tool.parse::<ToolName>().ok());
        let tools: BTreeSet<_> = tools.filter(|tool| !is_built_in(tool.as_str())).collect();
        let tools = tools.into_iter().take(CHECKED_MAX);
        Ok(self.tool_entries(workspace, tools).await?)
    }

    /// The fields of all contacts. `None`: there are no contacts, or too many names to look at.
    async fn contact_fields(
        &self,
        workspace: &Workspace,
    ) -> Result<Option<BTreeSet<String>>, QueryError> {
        let names = store::contact_field_names(&self.db, workspace, FIELDS_MAX + 1).await?;
        let is_all = u64::try_from(names.len()).is_ok_and(|found| found <= FIELDS_MAX);
        Ok((is_all && !names.is_empty()).then(|| names.into_iter().collect()))
    }

    /// Arguments that do not fit the schema of a tool, whatever the values of placeholders are.
    async fn argument_warnings(
        &self,
        steps: &[PlannedStepView],
        schemas: BTreeMap<String, Value>,
    ) -> Vec<FieldError> {
        let steps = steps.iter().filter_map(|step| {
            let tool = step.tool.as_deref()?;
            let is_checked = schemas.contains_key(tool);
            let tool = tool.parse::<ToolName>().ok().filter(|_| is_checked)?;
            Some((step.id.clone(), tool, step.args.clone()?))
        });
        let calls: Vec<_> = steps.collect();
        if calls.is_empty() {
            return Vec::new();
        }
        let check = move || {
            let wrong = calls.iter().filter_map(|(step, tool, args)| {
                let schema = schemas.get(tool.as_str())?;
                let errors = literal_errors(schema, args, &has_placeholder);
                (!errors.is_empty()).then(|| wrong_arguments(step, tool, errors))
            });
            wrong.take(WARNINGS_MAX).collect()
        };
        self.on_blocking_thread(check).await.unwrap_or_default()
    }

    /// Hostile names and schemas make the work slow, so it runs on a blocking thread, one query at a time. A query
    /// that waits too long goes without it.
    pub(super) async fn on_blocking_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let permit = Arc::clone(&self.compiling).acquire_owned();
        let permit = tokio::time::timeout(COMPILE_WITHIN, permit).await;
        let permit = permit.ok()?.ok()?;
        let work = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(permit);
            done
        });
        let done = work.await.inspect_err(|error| {
            tracing::error!(%error, "an agent cannot be checked; some errors or warnings are missing");
        });
        done.ok()
    }

    /// Adds the names that were perhaps meant.
    async fn with_similar_names(
        &self,
        warnings: Vec<FieldError>,
        candidates: BTreeSet<String>,
    ) -> Vec<FieldError> {
        let mut compared = warnings.clone();
        let compare = move || {
            for warning in compared.iter_mut().take(NEAREST_MAX) {
                warning.nearest = nearest(&warning.text, candidates.iter().map(String::as_str));
            }
            compared
        };
        self.on_blocking_thread(compare).await.unwrap_or(warnings)
    }
}

/// What live nodes say differently of a tool, and what counts then. An operator that has seen it has decided.
fn disagreement(entry: &ToolEntry, live: &[NodeName]) -> Option<String> {
    let nodes = entry.nodes.as_deref()?;
    let is_decided = |it: &Tool| it.spec.http.is_some() || it.seen >= nodes.revision();
    if entry.operator_entry().is_some_and(is_decided) {
        return None;
    }
    let is_live = |offer: &&ToolOffer| offer.nodes.iter().any(|node| live.contains(node));
    let offers: Vec<_> = nodes
        .offers
        .iter()
        .filter(is_live)
        .map(|offer| &offer.tool)
        .collect();
    let differs = |is_same: &dyn Fn(&ToolSpec) -> bool| offers.iter().any(|offer| !is_same(offer));
    let risk = entry.risk();
    let (args, result) = (entry.args_schema(), entry.result_schema());
    let mut said = Vec::new();
    if differs(&|offer| offer.risk == risk) {
        said.push(format!("the risk (`{risk}` counts)"));
    }
    let idempotent = entry.is_idempotent();
    if differs(&|offer| offer.idempotent == idempotent) {
        said.push(format!("`idempotent` (`{idempotent}` counts)"));
    }
    if differs(&|offer| offer.args_schema.as_ref() == args) {
        said.push("`args_schema`".to_owned());
    }
    if differs(&|offer| offer.result_schema.as_ref() == result) {
        said.push("`result_schema`".to_owned());
    }
    let (timeout, retry) = (entry.timeout_ms(), entry.retry());
    if differs(&|offer| offer.timeout == timeout) {
        said.push("`timeout`".to_owned());
    }
    if differs(&|offer| offer.retry.as_ref() == retry) {
        said.push("`retry`".to_owned());
    }
    let what = said.join(", ");
    (!said.is_empty()).then(|| {
        format!("Live nodes and the registry do not agree about {what}. An operator decides with `tool put`.")
    })
}

/// The steps of an agent, and a call of each tool that its planner may use.
fn with_planned_tools<'s>(plan: &Plan, steps: &'s [PlannedStepView]) -> Cow<'s, [PlannedStepView]> {
    let (Some(planner), Some(last)) = (&plan.planner, steps.last()) else {
        return Cow::Borrowed(steps);
    };
    let calls = planner.tools.iter().map(|tool| PlannedStepView {
        tool: Some(tool.clone()),
        args: None,
        ..last.clone()
    });
    steps.iter().cloned().chain(calls).collect()
}

/// With the name that was perhaps meant, if one is misspelled.
fn wrong_arguments(step: &str, tool: &ToolName, errors: Vec<FieldError>) -> FieldError {
    let joined = join_errors(&errors);
    let message = format!("The arguments do not fit `args_schema` of `{tool}`: {joined}.");
    let warning = at_step(step, tool, message);
    let misspelled = errors.into_iter().find(|error| !error.nearest.is_empty());
    match misspelled {
        Some(FieldError { text, nearest, .. }) => FieldError {
            text,
            nearest,
            ..warning
        },
        None => warning,
    }
}

fn at_step(step: &str, tool: &ToolName, message: String) -> FieldError {
    FieldError {
        step: Some(step.to_owned()),
        text: tool.to_string(),
        message,
        ..FieldError::default()
    }
}

fn warning(step: &str, tool: &str) -> FieldError {
    FieldError {
        step: Some(step.to_owned()),
        text: tool.to_owned(),
        message: format!(
            "No tool `{tool}` is built in, registered or offered by a live node. The step waits until \
             a node offers it."
        ),
        ..FieldError::default()
    }
}

#[cfg(test)]
pub(super) mod tests;
