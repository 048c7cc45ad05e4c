//! Tells the notification service how a run ended. It does so if a person watches the run or its agent, or
//! if a webhook asks for the ends of all runs.

use holdpoint_contracts::executor::RunEndWatched;
use holdpoint_contracts::notification::RunEnded;

use crate::domain::effect::{Effect, Reply};
use crate::domain::run::Run;

use super::follow::Scopes;
use super::transition::RunTransition;
use crate::domain::decision::{Decision, Outcome, Undecided};

/// Longest sentence of an end that is told, in characters; all of it is at the run.
const MESSAGE_CHARS_MAX: usize = 1_000;

/// Somebody watches the run. One that has ended is left as it is: how, is the answer.
pub(super) fn watch(mut transition: RunTransition<'_>) -> Decision {
    let ended = ended(&transition.run, None, (0, 0)).map(Box::new);
    let is_known = ended.is_some() || transition.run.watched;
    let answer = Reply::Watched(RunEndWatched { ended });
    if is_known {
        return Ok(Outcome::Unchanged(answer));
    }
    transition.run.watched = true;
    transition.decided(answer)
}

/// The end of the run, if this decision ends it and a person or a webhook asked for it.
pub(super) fn told(transition: &RunTransition<'_>) -> Result<Option<Effect>, Undecided> {
    let run = &transition.run;
    if transition.before.is_final() || !run.is_final() {
        return Ok(None);
    }
    let lookup = |need: &_| transition.lookup(need);
    let scopes = Scopes::look_up(&run.workspace, &run.agent, &lookup)?;
    let of_agent = scopes.agent.map_or(0, |agent| agent.watch.number());
    let of_all = scopes.workspace.map_or(0, |all| all.watch.number());
    if of_agent == 0 && of_all == 0 && !run.watched {
        return Ok(None);
    }
    let end = ended(run, transition.ended_by.clone(), (of_agent, of_all));
    Ok(end.map(|end| Effect::Ended {
        workspace: run.workspace.clone(),
        end: Box::new(end),
    }))
}

/// How a run ended; none: it has not.
fn ended(run: &Run, by: Option<String>, (watch, workspace_watch): (u64, u64)) -> Option<RunEnded> {
    let ended_at = run.ended_at()?;
    Some(RunEnded {
        run: run.id,
        agent: run.agent.clone(),
        status: run.status(),
        message: run
            .message(ended_at)
            .chars()
            .take(MESSAGE_CHARS_MAX)
            .collect(),
        by,
        started_at: run.created_at,
        ended_at,
        watch,
        workspace_watch,
    })
}
