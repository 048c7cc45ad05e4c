//! The plans of the agents that a plan runs, perhaps through others.

use std::collections::BTreeSet;

use holdpoint_ids::{AgentName, Workspace};

use super::super::ExecutorQueries;
use super::super::query_error::QueryError;
use super::super::warnings::agents_of;
use crate::domain::plan::Plan;
use crate::domain::rehearsal::child_plans::ChildPlans;
use crate::domain::{Fact, Need};
use crate::store;

/// Most agents below one plan whose runs are rehearsed. The runs of others complete at once.
const AGENTS_MAX: usize = 50;

impl ExecutorQueries {
    /// The newest versions, as runs that start now have them.
    pub(super) async fn child_plans(
        &self,
        workspace: &Workspace,
        plan: &Plan,
    ) -> Result<ChildPlans, QueryError> {
        let mut plans = ChildPlans::new();
        let mut next = agents_run_by([plan]);
        loop {
            // A run of the agent itself is refused.
            next.retain(|name| name.as_str() != plan.agent && !plans.contains_key(name));
            let names: Vec<&AgentName> = next.iter().take(AGENTS_MAX - plans.len()).collect();
            if names.is_empty() {
                return Ok(plans);
            }
            let agents = store::agents(&self.db, workspace, &names).await?;
            let live = agents.iter().filter(|agent| !agent.is_deleted());
            let wanted = live.map(|agent| (&agent.workspace, &agent.name, agent.newest));
            let wanted: Vec<_> = wanted.collect();
            let found = store::plans(&self.db, &wanted).await?;
            let found = found.into_iter().filter_map(|found| match found {
                (Need::Plan(_, agent, _), Fact::Plan(plan)) => Some((agent, plan.plan.clone())),
                _ => None,
            });
            let found: ChildPlans = found.map(|(agent, plan)| (agent, Some(plan))).collect();
            let below = agents_run_by(found.values().flatten());
            plans.extend(names.into_iter().map(|name| (name.clone(), None)));
            plans.extend(found);
            next = below;
        }
    }
}

fn agents_run_by<'p>(plans: impl IntoIterator<Item = &'p Plan>) -> BTreeSet<AgentName> {
    let steps = plans.into_iter().flat_map(|plan| &plan.steps);
    let agents = steps.flat_map(|step| agents_of(&step.action));
    agents.cloned().collect()
}
