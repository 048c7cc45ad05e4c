//! Checks a plan that people are asked about, and that a person may have edited, before the approval is recorded (Words 3).

use std::collections::BTreeSet;

use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::{CheckEditedPlan, PlannedAgent};
use holdpoint_contracts::tool::START_PLAN;
use holdpoint_ids::Workspace;

use super::ExecutorQueries;
use super::query_error::QueryError;
use crate::domain::Refusal;
use crate::domain::agent::planned_steps;
use crate::domain::model::plan::planner::PLANNER_STEPS;
use crate::domain::plan::Plan;
use crate::domain::run::Step;
use crate::store;

impl ExecutorQueries {
    /// Other requests are not checked, and neither is one whose plan has started: its decision is refused or repeated.
    pub(super) async fn check_edited_plan(
        &self,
        workspace: &Workspace,
        query: CheckEditedPlan,
    ) -> Result<Option<PlannedAgent>, QueryError> {
        let CheckEditedPlan { request, args } = query;
        let run = store::run(&self.db, workspace, request.run).await?;
        let Some(run) = run.filter(|run| !run.has_generated_plan) else {
            return Ok(None);
        };
        let asks = |step: &Step| step.on_people().is_some_and(|on| on.id == request);
        let Some(index) = run.steps.iter().position(asks) else {
            return Ok(None);
        };
        let plan = self.plan_of_run(&run).await?;
        let tool = plan.steps.get(index).and_then(|step| step.action.tool());
        if tool != Some(START_PLAN) {
            return Ok(None);
        }
        let made = self.on_blocking_thread(move || plan.with_steps_of(&args));
        match made.await {
            Some(Ok(made)) => Ok(Some(self.planned_steps_of(workspace, made).await?)),
            Some(Err(errors)) => Err(Refusal::InvalidPlan(errors).into()),
            None => Ok(None),
        }
    }

    /// The steps that a planner made, and what is doubtful in them. The author has seen the warnings of the agent itself.
    async fn planned_steps_of(
        &self,
        workspace: &Workspace,
        mut made: Plan,
    ) -> Result<PlannedAgent, QueryError> {
        made.planner = None;
        for step in made.steps.iter_mut().take(PLANNER_STEPS) {
            step.approval = None;
        }
        let mut steps = planned_steps(&made);
        let steps = steps.split_off(PLANNER_STEPS.min(steps.len()));
        let mut warnings = self.warnings(workspace, &made, &steps).await?;
        let own: BTreeSet<&str> = steps.iter().map(|step| step.id.as_str()).collect();
        warnings.retain(|it| it.step.as_deref().is_some_and(|step| own.contains(step)));
        let agent = made.agent.parse();
        Ok(PlannedAgent {
            agent: agent.map_err(|error| Problem::invalid_body(format!("{error}")))?,
            warnings,
            steps,
        })
    }
}

#[cfg(test)]
mod tests {
    use holdpoint_user_directory::table as directory;
    use serde_json::json;

    use super::super::warnings::tests::queries;
    use super::*;

    const AGENT: &str = "
agent: outreach
instructions: Win the customer back.
planner: { tool: plans.make, tools: [send_email, crm.note, crm.other], approval: { from: '@role.ghost' } }
";

    /// Words 3: a plan gets the warnings of an agent with these steps. Those of the agent itself are left out.
    #[tokio::test]
    async fn a_generated_plan_has_the_warnings_of_its_steps() {
        let folder = tempfile::tempdir().unwrap();
        let queries = queries(&folder).await;
        let acme = "acme".parse().unwrap();
        let plan = Plan::compile(AGENT).unwrap();
        let warnings = async |steps| {
            let made = plan.with_steps_of(&json!({ "steps": steps })).unwrap();
            let planned = queries.planned_steps_of(&acme, made).await.unwrap();
            let warnings = planned.warnings.into_iter();
            let warnings = warnings.map(|it| (it.step.unwrap_or_default(), it.text));
            (planned.steps.len(), warnings.collect::<Vec<_>>())
        };
        let of = |step: &str, text: &str| (step.to_owned(), text.to_owned());
        let steps = json!([{ "wait": "1 day" }, { "tool": "crm.note" }]);
        assert_eq!(warnings(steps).await, (2, vec![of("step-02", "crm.note")]));
        let steps = json!([{ "id": "mail", "tool": "send_email", "args": { "to": "a@x.example", "body": "x" } }]);
        assert_eq!(warnings(steps).await, (1, vec![of("mail", "send_email")]));
        let steps = json!([
            { "id": "ask", "ask": { "question": "Go on?", "on_timeout": "skip", "timeout": "1 day" } },
            { "tool": "send_email", "args": { "to": "a@x.example", "subject": "x", "body": "{{ $ask.answer }}" } },
        ]);
        assert_eq!(warnings(steps).await, (2, vec![of("step-02", "$ask")]));
        let steps = json!([{ "wait": "1 day" }]);
        assert_eq!(warnings(steps).await, (1, Vec::new()));
    }

    /// An approver of the agent who does not exist hides no step that names the same role.
    #[tokio::test]
    async fn a_role_without_users_is_named_at_the_step_of_the_plan() {
        let folder = tempfile::tempdir().unwrap();
        let queries = queries(&folder).await;
        let acme = "acme".parse().unwrap();
        let ada = json!({ "seq": 1, "workspace": "acme", "user": {
            "name": "ada", "email": null, "roles": ["owner"], "active": true, "version": 1 } });
        let ada = serde_json::from_value(ada).unwrap();
        directory::apply(&queries.db, &[ada]).await.unwrap();
        let plan = Plan::compile(AGENT).unwrap();
        let steps = json!({ "steps": [{ "id": "ask", "ask": { "question": "Go on?", "to": "@role.ghost" } }] });
        let made = plan.with_steps_of(&steps).unwrap();
        let planned = queries.planned_steps_of(&acme, made).await.unwrap();
        let found: Vec<_> = planned
            .warnings
            .iter()
            .map(|it| it.step.as_deref())
            .collect();
        assert_eq!(found, [Some("ask")], "{:?}", planned.warnings);
    }
}
