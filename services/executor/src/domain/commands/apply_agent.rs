//! `executor.apply_agent`: an author brings an agent's text, which becomes a new version unless it is unchanged.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use holdpoint_contracts::agent::AgentView;
use holdpoint_contracts::executor::AppliedAgent;
use holdpoint_ids::{AgentName, Workspace};

use crate::domain::decision::{
    Decided, Decision, InWorkspace, Lookup, LookupFn, Outcome, Undecided,
};
use crate::domain::effect::{Effect, Reply};
use crate::domain::model::agent::{Agent, planned_steps};
use crate::domain::model::library::Library;
use crate::domain::model::plan::Plan;
use crate::domain::need::{Aggregate, Fact, Key, Need, PlanFact};
use crate::domain::refusal::Refusal;

pub(crate) fn apply_agent(
    agent: Option<&Agent>,
    of: InWorkspace<'_, &AgentName>,
    text: &str,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    let InWorkspace {
        workspace,
        id: name,
    } = of;
    let library = library_of(workspace, lookup)?;
    let plan = match Plan::compile_with(text, library.as_deref()) {
        Ok(plan) if plan.agent == name.as_str() => plan,
        Ok(plan) => {
            return Err(Refusal::OtherAgent {
                named: name.clone(),
                defined: plan.agent,
            }
            .into());
        }
        Err(errors) => return Err(Refusal::InvalidAgent(errors).into()),
    };
    let digest = plan.digest();
    // The same text after a deletion is a new version: those up to it stay dead.
    if let Some(agent) = agent.filter(|agent| agent.digest == digest && !agent.is_deleted()) {
        return Ok(Outcome::Unchanged(applied_agent(agent, &plan, false)));
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
    let answer = applied_agent(&next, &plan, true);
    let need = Need::Plan(workspace.clone(), name.clone(), next.newest);
    let fact = Fact::Plan(Arc::new(PlanFact::new(plan.clone())));
    let effect = Effect::AgentVersion {
        workspace: workspace.clone(),
        agent: name.clone(),
        version: next.newest,
        plan: Box::new(plan),
    };
    Ok(Outcome::Decided(Box::new(Decided {
        state: Aggregate::Agent(next),
        effects: vec![effect],
        facts: vec![(need, fact)],
        reply: answer,
    })))
}

/// The templates and calendars that the agent may name.
fn library_of(
    workspace: &Workspace,
    lookup: LookupFn<'_>,
) -> Result<Option<Arc<Library>>, Undecided> {
    let need = Need::State(Key::Library(workspace.clone()));
    match lookup(&need) {
        Lookup::NotLoaded => Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(Fact::Library(library)) => Ok(Some(library)),
        Lookup::Found(_) | Lookup::Missing => Ok(None),
    }
}

fn applied_agent(agent: &Agent, plan: &Plan, changed: bool) -> Reply {
    let applied = AppliedAgent {
        agent: AgentView {
            steps: planned_steps(plan),
            ..agent.view()
        },
        changed,
    };
    Reply::Agent(Box::new(applied))
}
