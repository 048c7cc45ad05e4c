//! Says which tool a run waits for if nothing offers it.

use holdpoint_contracts::instant;
use holdpoint_contracts::run::{RunView, StepStatus, StepView};
use holdpoint_ids::Workspace;

use super::ExecutorQueries;
use super::query_error::QueryError;
use crate::domain::tool::is_built_in;

impl ExecutorQueries {
    /// Replaces the message of a live run whose queued step has a tool that is neither registered nor offered by a live
    /// node. Other runs cost no statement.
    pub(super) async fn name_unoffered_tool(
        &self,
        workspace: &Workspace,
        view: &mut RunView,
    ) -> Result<(), QueryError> {
        let is_queued = |step: &&StepView| step.status == StepStatus::Queued;
        let queued = view.steps.iter().filter(is_queued);
        let queued: Vec<_> = queued
            .filter_map(|step| Some((step, step.tool.as_ref()?)))
            .filter(|(_, tool)| !is_built_in(tool.as_str()))
            .collect();
        let is_paused = !view.paused_by.is_empty();
        if queued.is_empty() || view.status.is_final() || is_paused {
            return Ok(());
        }
        let names = queued.iter().map(|(_, tool)| (*tool).clone());
        let entries = self.tool_entries(workspace, names).await?;
        let offered = self.offered_tools().await?;
        let unoffered = queued.into_iter().find(|(_, tool)| {
            let entry = entries.get(*tool);
            entry.is_none_or(|entry| entry.http().is_none()) && !offered.contains_key(*tool)
        });
        if let Some((step, tool)) = unoffered {
            let since = step.started_at.map(instant::write);
            let since = since.map_or_else(String::new, |since| format!(" since {since}"));
            view.message = format!(
                "{} waits{since} for a worker that offers {tool}. No live node offers it.",
                step.id
            );
        }
        Ok(())
    }
}
