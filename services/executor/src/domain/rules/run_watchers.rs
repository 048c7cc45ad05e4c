//! Which ends of runs the notification service is notified about.

use holdpoint_contracts::notification::RunEnded;

use crate::domain::decision::Undecided;
use crate::domain::effect::Effect;
use crate::domain::model::run::Run;
use crate::domain::rules::scopes::Scopes;
use crate::domain::transition::RunTransition;

/// Longest message in the report of an end, in characters. The run has all of it.
const MESSAGE_CHARS_MAX: usize = 1_000;

/// The report of the end, if this decision ends the run and a user or a webhook watches it.
pub(crate) fn notify_run_end(transition: &RunTransition<'_>) -> Result<Option<Effect>, Undecided> {
    let run = &transition.run;
    // A run that is retried ends once more, perhaps in the same decision.
    if !run.is_final() || transition.before.ended_at() == run.ended_at() {
        return Ok(None);
    }
    let lookup = |need: &_| transition.lookup(need);
    let scopes = Scopes::look_up(&run.workspace, &run.agent, &lookup)?;
    let of_agent = scopes.agent.map_or(0, |agent| agent.watch.number());
    let of_all = scopes.workspace.map_or(0, |all| all.watch.number());
    if of_agent == 0 && of_all == 0 && !run.watched {
        return Ok(None);
    }
    let end = run_end(run, transition.ended_by.clone(), of_agent, of_all);
    Ok(end.map(|end| Effect::RunEnded {
        workspace: run.workspace.clone(),
        end: Box::new(end),
    }))
}

/// The end of a run; none: it has not ended.
pub(crate) fn run_end(
    run: &Run,
    by: Option<String>,
    watch: u64,
    workspace_watch: u64,
) -> Option<RunEnded> {
    let ended_at = run.ended_at()?;
    Some(RunEnded {
        erased: false,
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
