//! Checks a plan that a person has edited, before the approval is recorded (Words 3).

use holdpoint_contracts::executor::CheckEditedPlan;
use holdpoint_contracts::tool::START_PLAN;
use holdpoint_ids::Workspace;

use super::ExecutorQueries;
use super::query_error::QueryError;
use crate::domain::Refusal;
use crate::domain::run::Step;
use crate::store;

impl ExecutorQueries {
    /// Other requests are not checked, and neither is one whose plan has started: its decision is refused or repeated.
    pub(super) async fn check_edited_plan(
        &self,
        workspace: &Workspace,
        query: CheckEditedPlan,
    ) -> Result<(), QueryError> {
        let CheckEditedPlan { request, args } = query;
        let run = store::run(&self.db, workspace, request.run).await?;
        let Some(run) = run.filter(|run| !run.has_generated_plan) else {
            return Ok(());
        };
        let asks = |step: &Step| step.on_people().is_some_and(|on| on.id == request);
        let Some(index) = run.steps.iter().position(asks) else {
            return Ok(());
        };
        let plan = self.plan_of_run(&run).await?;
        let tool = plan.steps.get(index).and_then(|step| step.action.tool());
        if tool != Some(START_PLAN) {
            return Ok(());
        }
        let check = self.on_blocking_thread(move || plan.with_steps_of(&args).err());
        match check.await.flatten() {
            Some(errors) => Err(Refusal::InvalidPlan(errors).into()),
            None => Ok(()),
        }
    }
}
