//! What is told of a run's end, and to whom: nobody, unless somebody watches the run or its agent.

use holdpoint_contracts::executor::EndWatched;
use holdpoint_contracts::notification::RunEnded;

use crate::domain::effect::{Answer, Effect};
use crate::domain::need::{Fact, Found, Need};
use crate::domain::run::Run;

use super::Verdict;
use super::turn::{Stop, Turn};

/// Longest sentence of an end that is told, in characters; all of it is at the run.
const MESSAGE_CHARS_MAX: usize = 1_000;

/// Somebody watches the run. One that has ended is left as it is: how, is the answer.
pub(super) fn watch(mut turn: Turn<'_>) -> Verdict {
    let ended = ended(&turn.run, None, 0).map(Box::new);
    let is_known = ended.is_some() || turn.run.watched;
    let answer = Answer::Watched(EndWatched { ended });
    if is_known {
        return Verdict::Unchanged(answer);
    }
    turn.run.watched = true;
    turn.decided(answer)
}

/// The end of the run, if this decision is that, and somebody watches.
pub(super) fn told(turn: &Turn<'_>) -> Result<Option<Effect>, Stop> {
    let run = &turn.run;
    if turn.before.is_final() || !run.is_final() {
        return Ok(None);
    }
    let need = Need::Agent(run.workspace.clone(), run.agent.clone());
    let watch = match turn.look(&need) {
        Found::Unknown => return Err(Stop::Need(vec![need])),
        Found::Here(Fact::Agent(agent)) => agent.watch.number(),
        Found::Absent | Found::Here(_) => 0,
    };
    let by = turn.ended_by.clone();
    let end = ended(run, by, watch).filter(|_| watch > 0 || run.watched);
    Ok(end.map(|end| Effect::Ended {
        workspace: run.workspace.clone(),
        end: Box::new(end),
    }))
}

/// How a run ended; none: it has not.
fn ended(run: &Run, by: Option<String>, watch: u64) -> Option<RunEnded> {
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
    })
}
