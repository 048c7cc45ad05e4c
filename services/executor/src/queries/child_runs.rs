//! What the view of a run has of its child runs, and of its output.

use holdpoint_contracts::run::{RunView, StepView};
use holdpoint_ids::{RunId, Workspace};
use holdpoint_store::StoreError;
use serde_json::{Value, json};

use super::ExecutorQueries;
use crate::domain::plan::{Action, Plan, PlannedStep};
use crate::domain::run::child_runs::OUTPUT;
use crate::domain::{Fact, Need};
use crate::store;

/// Open child runs whose status one view looks up.
const LOOKED_UP_MAX: usize = 100;

impl ExecutorQueries {
    /// The parent knows how its child runs have ended. The rows of open ones say more.
    pub(super) async fn add_child_statuses(
        &self,
        workspace: &Workspace,
        steps: &mut [StepView],
    ) -> Result<(), StoreError> {
        let children = steps.iter().flat_map(|step| &step.child_runs);
        let open = children.filter(|child| child.status.is_none());
        let open: Vec<RunId> = open.map(|child| child.run).take(LOOKED_UP_MAX).collect();
        if open.is_empty() {
            return Ok(());
        }
        let statuses = store::run_statuses(&self.db, workspace, &open).await?;
        for child in steps.iter_mut().flat_map(|step| &mut step.child_runs) {
            child.status = child.status.or_else(|| statuses.get(&child.run).copied());
        }
        Ok(())
    }

    /// The output of a completed run is a value beside its state.
    pub(super) async fn add_output(
        &self,
        plan: &Plan,
        view: &mut RunView,
    ) -> Result<(), StoreError> {
        let has_output = |step: &PlannedStep| {
            let Action::Finish(finish) = &step.action else {
                return false;
            };
            finish.output.is_some()
        };
        if !plan.steps.iter().any(has_output) {
            return Ok(());
        }
        let Some(Value::Object(result)) = &mut view.result else {
            return Ok(());
        };
        let found = store::values(&self.db, &[(view.id, OUTPUT)]).await?;
        let need = Need::Value(view.id, OUTPUT.to_owned());
        if let Some((_, Fact::Value(output))) = found.iter().find(|(known, _)| *known == need) {
            result.insert("output".to_owned(), json!(output));
        }
        Ok(())
    }
}
