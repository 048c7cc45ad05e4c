//! `executor.watch_run_ends`: the notification service wants to know how a run, the runs of an agent, or all
//! runs end.

use holdpoint_contracts::executor::RunEndWatched;
use holdpoint_ids::{AgentName, Workspace};

use crate::domain::decision::{Decision, Outcome, decided};
use crate::domain::effect::Reply;
use crate::domain::model::agent::Agent;
use crate::domain::model::scope::{EndsWatch, WorkspaceScope};
use crate::domain::need::Aggregate;
use crate::domain::refusal::Refusal;
use crate::domain::rules::run_watchers::run_end;
use crate::domain::transition::{RunDecision, RunOutcome, RunTransition};

/// Subscribes to the ends of all runs of an agent, from this commit on.
pub(crate) fn watch_agent(agent: Option<&Agent>, name: &AgentName) -> Decision {
    let Some(known) = agent.filter(|agent| !agent.is_deleted()) else {
        return Err(Refusal::AgentNotFound(name.clone()).into());
    };
    let next = Agent {
        watch: known.watch.begin(),
        ..known.clone()
    };
    changed_agent(next, Reply::Watched(RunEndWatched::default()))
}

/// The notification service needs the ends of the agent's runs no longer.
pub(crate) fn unwatch_agent(agent: Option<&Agent>, watch: u64) -> Decision {
    let over = agent.and_then(|known| Some((known, known.watch.over(watch)?)));
    let Some((known, over)) = over else {
        return Ok(Outcome::Unchanged(Reply::Nothing(())));
    };
    let next = Agent {
        watch: over,
        ..known.clone()
    };
    changed_agent(next, Reply::Nothing(()))
}

fn changed_agent(next: Agent, answer: Reply) -> Decision {
    let next = Agent {
        version: next.version + 1,
        ..next
    };
    decided(Aggregate::Agent(next), Vec::new(), answer)
}

/// Subscribes to the ends of all runs of a workspace, from this commit on.
pub(crate) fn watch_workspace(known: Option<&WorkspaceScope>, workspace: &Workspace) -> Decision {
    let fresh = || WorkspaceScope::fresh(workspace);
    let known = known.cloned().unwrap_or_else(fresh);
    let watch = known.watch.begin();
    changed_workspace(known, watch, Reply::Watched(RunEndWatched::default()))
}

/// The notification service needs the ends of the workspace's runs no longer.
pub(crate) fn unwatch_workspace(known: Option<&WorkspaceScope>, watch: u64) -> Decision {
    let over = known.and_then(|known| Some((known.clone(), known.watch.over(watch)?)));
    match over {
        Some((known, over)) => changed_workspace(known, over, Reply::Nothing(())),
        None => Ok(Outcome::Unchanged(Reply::Nothing(()))),
    }
}

fn changed_workspace(known: WorkspaceScope, watch: EndsWatch, answer: Reply) -> Decision {
    let next = WorkspaceScope {
        version: known.version + 1,
        watch,
        ..known
    };
    decided(Aggregate::Workspace(next), Vec::new(), answer)
}

/// Subscribes to the end of a run. A run that has ended does not change, and the reply is its end.
pub(crate) fn watch_run<'a>(mut transition: RunTransition<'a>) -> RunDecision<'a> {
    let ended = run_end(&transition.run, None, 0, 0).map(Box::new);
    let is_known = ended.is_some() || transition.run.watched;
    let answer = Reply::Watched(RunEndWatched { ended });
    if is_known {
        return Ok(RunOutcome::Unchanged(answer));
    }
    transition.run.watched = true;
    transition.decided(answer)
}
