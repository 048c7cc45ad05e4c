//! What the runs of a rehearsal share.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use holdpoint_contracts::rehearsal::{RUN_MIB_MAX, RUN_ROUNDS_MAX, Rehearsal, RehearsedRun};
use holdpoint_ids::{IdError, Workspace};

use super::audience::ActiveUsers;
use super::policies::Policies;
use super::script::Script;
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
    pub(super) script: Script,
    pub(super) start_at: DateTime<Utc>,
    pub(super) limits: RunLimits,
}

impl RehearsalSetup {
    /// The limits of an agent on its starts do not count: each contact has its run.
    ///
    /// # Errors
    /// The name of the agent is invalid.
    pub fn new(
        of: WorkspaceFacts,
        mut plan: Plan,
        script: Script,
        start_at: DateTime<Utc>,
    ) -> Result<Self, IdError> {
        let WorkspaceFacts {
            workspace,
            tools,
            users,
            policies,
        } = of;
        plan.limits.concurrency = None;
        plan.limits.rate = None;
        plan.limits.once = None;
        let agent = Agent {
            workspace: workspace.clone(),
            name: plan.agent.parse()?,
            version: 1,
            newest: 1,
            digest: String::new(),
            description: None,
            updated_at: start_at,
            scope: Scope::default(),
            watch: EndsWatch::default(),
        };
        Ok(Self {
            workspace,
            agent,
            plan: Arc::new(PlanFact::new(plan)),
            tools,
            users,
            policies,
            script,
            start_at,
            limits: RunLimits::default(),
        })
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
