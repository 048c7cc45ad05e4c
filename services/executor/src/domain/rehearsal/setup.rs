//! What the runs of a rehearsal share.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use holdpoint_contracts::rehearsal::{RUN_MIB_MAX, RUN_ROUNDS_MAX, Rehearsal, RehearsedRun};
use holdpoint_ids::{AgentName, IdError, Workspace};

use super::audience::ActiveUsers;
use super::child_plans::ChildPlans;
use super::policies::Policies;
use super::script::Script;
use super::standing_approvals::StandingApprovals;
use crate::domain::model::agent::Agent;
use crate::domain::model::plan::Plan;
use crate::domain::model::scope::{EndsWatch, Scope};
use crate::domain::model::tool::Tool;
use crate::domain::need::PlanFact;

/// What a rehearsal knows of its workspace.
#[derive(Debug)]
pub struct WorkspaceFacts {
    pub workspace: Workspace,
    /// Entries of the registry that the plan names.
    pub tools: Vec<Arc<Tool>>,
    pub users: ActiveUsers,
    pub policies: Policies,
    pub standing_approvals: StandingApprovals,
    /// Of the agents that the plan runs, perhaps through others. `None`: there is no such agent.
    pub child_plans: ChildPlans,
}

/// Limits of each run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunLimits {
    pub(super) rounds: usize,
    /// Of the memory that it keeps, as an estimate.
    pub(super) bytes: usize,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            rounds: RUN_ROUNDS_MAX,
            bytes: RUN_MIB_MAX * 1024 * 1024,
        }
    }
}

/// What the runs of a rehearsal share.
#[derive(Debug)]
pub struct RehearsalSetup {
    pub(super) workspace: Workspace,
    pub(super) agent: Agent,
    pub(super) plan: Arc<PlanFact>,
    /// Entries of the registry that the plan names.
    pub(super) tools: Vec<Arc<Tool>>,
    pub(super) users: ActiveUsers,
    pub(super) policies: Policies,
    pub(super) standing_approvals: StandingApprovals,
    /// The agents that steps run. `None`: there is no such agent. An absent one is not rehearsed.
    children: BTreeMap<AgentName, Option<(Agent, Arc<PlanFact>)>>,
    pub(super) script: Script,
    pub(super) start_at: DateTime<Utc>,
    pub(super) limits: RunLimits,
}

impl RehearsalSetup {
    /// # Errors
    /// The name of the agent is invalid.
    pub fn new(
        of: WorkspaceFacts,
        plan: Plan,
        script: Script,
        start_at: DateTime<Utc>,
    ) -> Result<Self, IdError> {
        let WorkspaceFacts {
            workspace,
            tools,
            users,
            policies,
            standing_approvals,
            child_plans,
        } = of;
        let prepare = |plan: Plan| {
            let agent = agent_of(&workspace, &plan, start_at)?;
            let plan = PlanFact::new(without_start_limits(plan));
            Ok::<_, IdError>((agent, Arc::new(plan)))
        };
        let (agent, plan) = prepare(plan)?;
        let children = child_plans.into_iter();
        let children = children.map(|(name, plan)| Ok((name, plan.map(prepare).transpose()?)));
        Ok(Self {
            children: children.collect::<Result<_, IdError>>()?,
            workspace,
            agent,
            plan,
            tools,
            users,
            policies,
            standing_approvals,
            script,
            start_at,
            limits: RunLimits::default(),
        })
    }

    /// The rehearsed agent, or one that a step runs.
    pub(super) fn find_agent(&self, name: &AgentName) -> Option<(&Agent, &Arc<PlanFact>)> {
        if *name == self.agent.name {
            return Some((&self.agent, &self.plan));
        }
        let (agent, plan) = self.children.get(name)?.as_ref()?;
        Some((agent, plan))
    }

    /// Whether a run of this agent is rehearsed, or refused because there is no such agent.
    pub(super) fn knows_child(&self, name: &AgentName) -> bool {
        self.children.contains_key(name)
    }

    /// Counts what a run has used, so that the runs after it find less.
    pub fn count_uses(&mut self, run: &RehearsedRun) {
        self.standing_approvals.use_up(&run.standing_approvals);
    }

    /// The result for the first of `contacts` contacts.
    #[must_use]
    pub fn rehearsal(&self, runs: Vec<RehearsedRun>, contacts: usize) -> Rehearsal {
        let steps = self.plan.plan.steps.iter();
        Rehearsal {
            agent: self.agent.name.clone(),
            version: None,
            started_at: self.start_at,
            steps: steps.map(|step| step.id.clone()).collect(),
            contacts_left: contacts.saturating_sub(runs.len()),
            runs,
        }
    }
}

/// The limits of an agent on its starts do not count: each contact has its run.
fn without_start_limits(mut plan: Plan) -> Plan {
    plan.limits.concurrency = None;
    plan.limits.rate = None;
    plan.limits.once = None;
    plan
}

fn agent_of(workspace: &Workspace, plan: &Plan, start_at: DateTime<Utc>) -> Result<Agent, IdError> {
    Ok(Agent {
        workspace: workspace.clone(),
        name: plan.agent.parse()?,
        version: 1,
        newest: 1,
        digest: String::new(),
        description: None,
        updated_at: start_at,
        scope: Scope::default(),
        watch: EndsWatch::default(),
    })
}
