//! Warns of a tool that is allowed and that nothing offers (D-5).
//!
//! A query costs little whatever the workspace and the agent contain: it selects names and not rows,
//! warns of [`WARNINGS_MAX`] tools at most, and compares spellings on a blocking thread.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use holdpoint_contracts::agent::PlannedStepView;
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::steps::NodeStatus;
use holdpoint_ids::Workspace;
use holdpoint_kernel::LIMIT_MAX;

use super::query_error::QueryError;
use super::{COMPILE_WITHIN, ExecutorQueries};
use crate::domain::definition::nearest;
use crate::domain::tool::{BUILT_IN, is_built_in};
use crate::store;

/// Tools that one agent is warned of; further unknown tools get no warning.
const WARNINGS_MAX: usize = 100;

/// Warnings that name similar tools. The first ones suffice to see a misspelling.
const NEAREST_MAX: usize = 20;

/// Registered names that one unknown name is compared with, in their order. A similar name beyond them
/// is not suggested.
const COMPARED_MAX: u64 = 200;

impl ExecutorQueries {
    /// One warning for each tool that is not built in, not registered and not offered by a live node, at
    /// the first step that calls it. The step waits until a node offers the tool, which may be intended.
    pub(super) async fn unknown_tools(
        &self,
        workspace: &Workspace,
        steps: &[PlannedStepView],
    ) -> Result<Vec<FieldError>, QueryError> {
        let mut seen = HashSet::new();
        let mut called: Vec<(&str, &str)> = steps
            .iter()
            .filter_map(|step| Some((step.id.as_str(), step.tool.as_deref()?)))
            .filter(|(_, tool)| !is_built_in(tool) && seen.insert(*tool))
            .collect();
        if called.is_empty() {
            return Ok(Vec::new());
        }
        let offered = self.offered_tools().await?;
        called.retain(|(_, tool)| !offered.contains(*tool));
        let names: Vec<_> = called.iter().map(|(_, tool)| *tool).collect();
        let registered = store::registered_tools(&self.db, workspace, &names).await?;
        called.retain(|(_, tool)| !registered.contains(*tool));
        called.truncate(WARNINGS_MAX);
        let warnings: Vec<_> = called
            .into_iter()
            .map(|(step, tool)| warning(step, tool))
            .collect();
        if warnings.is_empty() {
            return Ok(warnings);
        }
        let mut candidates: BTreeSet<String> = BUILT_IN.into_iter().map(str::to_owned).collect();
        let compared = usize::try_from(COMPARED_MAX).unwrap_or(usize::MAX);
        candidates.extend(offered.into_iter().take(compared));
        candidates.extend(store::tool_names(&self.db, workspace, COMPARED_MAX).await?);
        Ok(self.with_similar_names(warnings, candidates).await)
    }

    /// Tools of the nodes that are not down.
    pub(super) async fn offered_tools(&self) -> Result<BTreeSet<String>, QueryError> {
        let nodes = store::list_nodes(&self.db, LIMIT_MAX).await?;
        let live = nodes
            .into_iter()
            .filter(|node| node.status != NodeStatus::Down);
        let tools = live.flat_map(|node| node.tools);
        Ok(tools.map(|tool| tool.to_string()).collect())
    }

    /// Adds the names that were perhaps meant. Hostile names make each comparison slow, so comparisons
    /// run on a blocking thread, one query at a time. A query that waits too long goes without them.
    async fn with_similar_names(
        &self,
        warnings: Vec<FieldError>,
        candidates: BTreeSet<String>,
    ) -> Vec<FieldError> {
        let permit = Arc::clone(&self.compiling).acquire_owned();
        let Ok(Ok(permit)) = tokio::time::timeout(COMPILE_WITHIN, permit).await else {
            return warnings;
        };
        let mut compared = warnings.clone();
        let comparison = tokio::task::spawn_blocking(move || {
            for warning in compared.iter_mut().take(NEAREST_MAX) {
                warning.nearest = nearest(&warning.text, candidates.iter().map(String::as_str));
            }
            drop(permit);
            compared
        });
        comparison.await.unwrap_or_else(|error| {
            tracing::error!(%error, "names of tools cannot be compared; warnings suggest none");
            warnings
        })
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
mod tests;
