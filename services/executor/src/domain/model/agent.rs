//! An agent: a name whose newest version new runs take.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use holdpoint_contracts::agent::{AgentView, PlannedStepView};
use holdpoint_contracts::executor::{AppliedAgent, RunEndWatched};
use holdpoint_ids::{AgentName, Workspace};
use serde::{Deserialize, Serialize};

use super::effect::{Effect, Reply};
use super::need::{Aggregate, Fact, Need, PlanFact};
use super::plan::{Action, Plan};
use super::refusal::Refusal;
use super::scope::{EndsWatch, Scope};
use crate::domain::decision::{Decided, Decision, Outcome, Undecided};

/// An agent's control state; its versions are rows of their own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    pub workspace: Workspace,
    pub name: AgentName,
    /// Rises with every decision.
    pub version: u64,
    /// The newest version of its plan, from 1.
    pub newest: u32,
    /// Digest of that plan: the same text again is no new version.
    pub digest: String,
    /// What it is for.
    pub description: Option<String>,
    /// When the newest version came.
    pub updated_at: DateTime<Utc>,
    /// What was commanded for all its runs.
    #[serde(default)]
    pub scope: Scope,
    /// Whether somebody watches it.
    #[serde(default, skip_serializing_if = "EndsWatch::is_none")]
    pub watch: EndsWatch,
}

impl Agent {
    /// Whether all its versions are deleted: as if it were not there.
    #[must_use]
    pub const fn is_deleted(&self) -> bool {
        self.newest <= self.scope.dead_up_to
    }

    /// `active`, `paused` or `deleted`.
    #[must_use]
    pub const fn status(&self) -> &'static str {
        if self.is_deleted() {
            "deleted"
        } else if self.scope.paused.is_some() {
            "paused"
        } else {
            "active"
        }
    }

    /// The agent for lists.
    #[must_use]
    pub fn view(&self) -> AgentView {
        AgentView {
            agent: self.name.clone(),
            version: self.newest,
            status: self.status().to_owned(),
            description: self.description.clone(),
            steps: Vec::new(),
            warnings: Vec::new(),
            updated_at: self.updated_at,
        }
    }
}

/// Makes an agent or a new version of it.
pub(crate) fn apply(
    agent: Option<&Agent>,
    workspace: &Workspace,
    name: &AgentName,
    text: &str,
    now: DateTime<Utc>,
) -> Decision {
    let plan = match Plan::compile(text) {
        Ok(plan) if plan.agent == name.as_str() => plan,
        Ok(plan) => {
            let said = plan.agent;
            return Err(Undecided::Refused(Refusal::OtherAgent {
                asked: name.clone(),
                said,
            }));
        }
        Err(faults) => return Err(Undecided::Refused(Refusal::InvalidAgent(faults))),
    };
    let digest = plan.digest();
    // The same text after a deletion is a new version: those up to it stay dead.
    if let Some(agent) = agent.filter(|agent| agent.digest == digest && !agent.is_deleted()) {
        return Ok(Outcome::Unchanged(Reply::Agent(applied(
            agent, &plan, false,
        ))));
    }
    let next = Agent {
        workspace: workspace.clone(),
        name: name.clone(),
        version: agent.map_or(0, |agent| agent.version) + 1,
        newest: agent.map_or(0, |agent| agent.newest) + 1,
        digest,
        description: plan.description.clone(),
        updated_at: now,
        scope: agent.map(|agent| agent.scope.clone()).unwrap_or_default(),
        watch: agent.map(|agent| agent.watch).unwrap_or_default(),
    };
    let answer = Reply::Agent(applied(&next, &plan, true));
    let need = Need::Plan(workspace.clone(), name.clone(), next.newest);
    let fact = Fact::Plan(std::sync::Arc::new(PlanFact::new(plan.clone())));
    let effect = Effect::AgentVersion {
        workspace: workspace.clone(),
        agent: name.clone(),
        version: next.newest,
        plan,
    };
    Ok(Outcome::Decided(Box::new(Decided {
        state: Aggregate::Agent(next),
        effects: vec![effect],
        facts: vec![(need, fact)],
        reply: answer,
    })))
}

/// Somebody watches it: from this commit on the ends of its runs are told.
pub(crate) fn watch(agent: Option<&Agent>, name: &AgentName) -> Decision {
    let Some(known) = agent.filter(|agent| !agent.is_deleted()) else {
        return Err(Undecided::Refused(Refusal::AgentNotFound(name.clone())));
    };
    let next = Agent {
        watch: known.watch.begin(),
        ..known.clone()
    };
    changed(next, Reply::Watched(RunEndWatched::default()))
}

/// The notification service answered the end of a run: nobody watches the agent any more.
pub(crate) fn unwatched(agent: Option<&Agent>, watch: u64) -> Decision {
    let over = agent.and_then(|known| Some((known, known.watch.over(watch)?)));
    let Some((known, over)) = over else {
        return Ok(Outcome::Unchanged(Reply::Nothing(())));
    };
    let next = Agent {
        watch: over,
        ..known.clone()
    };
    changed(next, Reply::Nothing(()))
}

fn changed(next: Agent, answer: Reply) -> Decision {
    let next = Agent {
        version: next.version + 1,
        ..next
    };
    Ok(Outcome::Decided(Box::new(Decided {
        state: Aggregate::Agent(next),
        effects: Vec::new(),
        facts: Vec::new(),
        reply: answer,
    })))
}

fn applied(agent: &Agent, plan: &Plan, changed: bool) -> AppliedAgent {
    AppliedAgent {
        agent: AgentView {
            steps: planned_steps(plan),
            ..agent.view()
        },
        changed,
    }
}

/// The steps of a plan as the API shows them.
#[must_use]
pub fn planned_steps(plan: &Plan) -> Vec<PlannedStepView> {
    let id_of = |index: &usize| plan.steps.get(*index).map(|step| step.id.clone());
    plan.steps
        .iter()
        .map(|step| {
            let (tool, duration_ms) = match &step.action {
                Action::Tool { tool, .. } => (Some(tool.clone()), None),
                Action::Wait { duration_ms } => (None, Some(*duration_ms)),
                Action::Ask(_) | Action::Handoff(_) => (None, None),
            };
            PlannedStepView {
                id: step.id.clone(),
                kind: step.action.kind().to_owned(),
                action: step.action.describe(),
                needs: step.needs.iter().filter_map(id_of).collect(),
                when: step.when.clone(),
                tool,
                args: step.action.template().map(Cow::into_owned),
                duration_ms,
            }
        })
        .collect()
}
