//! `executor.watch_run_ends`: the notification service wants to know how a run, the runs of an agent, or all
//! runs end.

use holdpoint_contracts::executor::RunEndWatched;
use holdpoint_ids::{AgentName, Workspace};

use crate::domain::decision::{Decision, Outcome, decided};
use crate::domain::effect::Reply;
use crate::domain::need::Aggregate;
use crate::domain::rules::run_watchers::run_end;
use crate::domain::rules::scopes::commanded_scope;
use crate::domain::transition::{RunDecision, RunOutcome, RunTransition};

/// Subscribes to the ends of all runs of an agent or workspace, from this commit on.
pub(crate) fn watch_scope(
    state: Option<&Aggregate>,
    workspace: &Workspace,
    agent: Option<&AgentName>,
) -> Decision {
    let mut next = commanded_scope(state, workspace, agent)?;
    if let Some((version, _, watch)) = next.scope_mut() {
        (*version, *watch) = (*version + 1, watch.begin());
    }
    let reply = Reply::Watched(RunEndWatched::default());
    decided(next, Vec::new(), reply)
}

/// The notification service needs the ends of these runs no longer.
pub(crate) fn unwatch_scope(state: Option<&Aggregate>, watch: u64) -> Decision {
    let next = state.cloned().and_then(|mut next| {
        let (version, _, known) = next.scope_mut()?;
        (*version, *known) = (*version + 1, known.over(watch)?);
        Some(next)
    });
    match next {
        Some(next) => decided(next, Vec::new(), Reply::Nothing(())),
        None => Ok(Outcome::Unchanged(Reply::Nothing(()))),
    }
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
