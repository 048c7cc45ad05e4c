//! Warns of agents that a plan runs and that do not exist, and of runs below themselves.

use std::collections::{BTreeSet, HashMap};

use holdpoint_contracts::problem::FieldError;
use holdpoint_ids::{AgentName, Workspace};
use holdpoint_store::StoreError;

use super::super::ExecutorQueries;
use crate::domain::plan::{Action, Plan};
use crate::domain::{Agent, Fact, Need};
use crate::store;

/// Agents that are looked at for one plan; further ones get no warning.
const AGENTS_MAX: usize = 50;

/// An agent that a plan runs, perhaps through others, and the step that does.
type Named = (AgentName, String);

impl ExecutorQueries {
    /// Follows the newest versions of the agents that the plan runs. The runs themselves are bounded when they start.
    pub(super) async fn run_warnings(
        &self,
        workspace: &Workspace,
        plan: &Plan,
    ) -> Result<Vec<FieldError>, StoreError> {
        let mut warnings = Vec::new();
        let mut seen = BTreeSet::new();
        let mut next: Vec<Named> = Vec::new();
        for step in &plan.steps {
            next.extend(agents_of(&step.action).map(|agent| (agent.clone(), step.id.clone())));
        }
        let mut is_direct = true;
        while !next.is_empty() {
            next.retain(|(agent, _)| seen.len() < AGENTS_MAX && seen.insert(agent.clone()));
            let names: Vec<_> = next.iter().map(|(agent, _)| agent).collect();
            let found = store::agents(&self.db, workspace, &names).await?;
            let runs_of = self.agents_run_by(&found).await?;
            let mut below = Vec::new();
            for (name, step) in &next {
                let agent = found.iter().find(|agent| agent.name == *name);
                let Some(agent) = agent.filter(|agent| !agent.is_deleted()) else {
                    let missing = is_direct.then(|| missing_agent(step, name));
                    warnings.extend(missing);
                    continue;
                };
                let runs = runs_of.get(&agent.name).map_or(&[][..], Vec::as_slice);
                if runs.iter().any(|run| run.as_str() == plan.agent) {
                    let own = &plan.agent;
                    let message =
                        format!("`{name}` runs `{own}`. A run of `{own}` below itself is refused.");
                    warnings.push(warning(step, name, message));
                }
                below.extend(runs.iter().map(|run| (run.clone(), step.clone())));
            }
            (next, is_direct) = (below, false);
        }
        Ok(warnings)
    }

    /// The agents that the newest plans of these agents run.
    async fn agents_run_by(
        &self,
        agents: &[Agent],
    ) -> Result<HashMap<AgentName, Vec<AgentName>>, StoreError> {
        let wanted = agents.iter();
        let wanted = wanted.map(|agent| (&agent.workspace, &agent.name, agent.newest));
        let wanted: Vec<_> = wanted.collect();
        let found = store::plans(&self.db, &wanted).await?;
        let plans = found
            .into_iter()
            .filter_map(|(need, fact)| match (need, fact) {
                (Need::Plan(_, agent, _), Fact::Plan(plan)) => Some((agent, plan)),
                _ => None,
            });
        let runs = plans.map(|(agent, plan)| {
            let steps = plan.plan.steps.iter();
            let runs = steps.flat_map(|step| agents_of(&step.action)).cloned();
            (agent, runs.collect())
        });
        Ok(runs.collect())
    }
}

/// The agents whose runs a step starts.
pub(in crate::queries) fn agents_of(action: &Action) -> impl Iterator<Item = &AgentName> {
    let runs = match action {
        Action::Run(run) => run.runs.as_slice(),
        Action::Tool { .. }
        | Action::Wait { .. }
        | Action::WaitUntil(_)
        | Action::WaitFor(_)
        | Action::Ask(_)
        | Action::Handoff(_)
        | Action::Finish(_) => &[],
    };
    runs.iter().map(|run| &run.agent)
}

fn missing_agent(step: &str, agent: &AgentName) -> FieldError {
    let message = format!("No agent `{agent}` exists. The step fails until it is applied.");
    warning(step, agent, message)
}

fn warning(step: &str, agent: &AgentName, message: String) -> FieldError {
    FieldError {
        step: Some(step.to_owned()),
        text: agent.to_string(),
        message,
        ..FieldError::default()
    }
}
