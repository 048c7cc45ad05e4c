//! Warns of what is allowed and probably not meant: a tool that nothing offers (D-5).

use std::collections::BTreeSet;

use holdpoint_contracts::agent::PlannedStepView;
use holdpoint_contracts::problem::{FieldError, Problem};
use holdpoint_contracts::steps::NodeStatus;
use holdpoint_ids::Workspace;

use super::{ExecutorQueries, LIMIT_MAX, failed};
use crate::domain::definition::nearest;
use crate::domain::tool::BUILT_IN;
use crate::store;

/// Tools that are read at once.
const PAGE: u64 = 500;

impl ExecutorQueries {
    /// Steps whose tool is not built in, not registered, and not offered by a live node. Each waits until
    /// a node offers its tool, which may be meant.
    pub(super) async fn unknown_tools(
        &self,
        workspace: &Workspace,
        steps: &[PlannedStepView],
    ) -> Result<Vec<FieldError>, Problem> {
        let is_own = |step: &PlannedStepView| {
            let tool = step.tool.as_deref();
            tool.is_some_and(|tool| !BUILT_IN.contains(&tool))
        };
        if !steps.iter().any(is_own) {
            return Ok(Vec::new());
        }
        let known = self.known_tools(workspace).await?;
        let unknown = steps.iter().filter_map(|step| {
            let tool = step.tool.as_deref()?;
            (!known.contains(tool)).then(|| warning(&step.id, tool, &known))
        });
        Ok(unknown.collect())
    }

    async fn known_tools(&self, workspace: &Workspace) -> Result<BTreeSet<String>, Problem> {
        let mut known: BTreeSet<String> = BUILT_IN.into_iter().map(str::to_owned).collect();
        let nodes = store::list_nodes(&self.db, LIMIT_MAX)
            .await
            .map_err(|error| failed(&error))?;
        let live = nodes
            .into_iter()
            .filter(|node| node.status != NodeStatus::Down);
        known.extend(
            live.flat_map(|node| node.tools)
                .map(|tool| tool.to_string()),
        );
        let mut after = None;
        loop {
            let page = store::list_tools(&self.db, workspace, after.as_deref(), PAGE)
                .await
                .map_err(|error| failed(&error))?;
            let is_last = u64::try_from(page.len()).is_ok_and(|found| found < PAGE);
            after = page.last().map(|tool| tool.spec.name.to_string());
            known.extend(page.iter().map(|tool| tool.spec.name.to_string()));
            if is_last {
                return Ok(known);
            }
        }
    }
}

fn warning(step: &str, tool: &str, known: &BTreeSet<String>) -> FieldError {
    FieldError {
        step: Some(step.to_owned()),
        text: tool.to_owned(),
        message: format!(
            "No tool `{tool}` is built in, registered or offered by a live node. The step waits until \
             a node offers it."
        ),
        nearest: nearest(tool, known.iter().map(String::as_str)),
        ..FieldError::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mend D-5: a misspelled tool is told with the name that was perhaps meant.
    #[test]
    fn a_misspelled_tool_is_told_with_the_nearest_name() {
        let known = BUILT_IN.into_iter().map(str::to_owned).collect();
        let told = warning("mail", "send_emial", &known);
        assert_eq!(told.nearest, ["send_email"]);
        assert_eq!(
            (told.step.as_deref(), told.text.as_str()),
            (Some("mail"), "send_emial")
        );
    }
}
