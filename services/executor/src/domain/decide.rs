//! Decides what an input does: which aggregate it is for, and which rule answers it.

mod advance;
mod control;
mod ended_result;
mod ending;
mod follow;
mod outside;
pub(in crate::domain) mod people;
mod start;
mod turn;
mod uncertain;
mod work;

#[cfg(test)]
mod tests;

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::TimerAnswer;
use holdpoint_contracts::steps::{Grant, ResultAnswer};
use holdpoint_ids::{RunId, UserName, Workspace};

use super::effect::{Answer, Effect};
use super::input::{Input, RunInput};
use super::need::{Aggregate, Fact, Found, Lookup, Need};
use super::refusal::Refusal;
use super::run::Run;
use super::{agent, contact, node, scope, tool};
pub use follow::{Scopes, overlay};
use turn::{Stop, Turn};

/// What a decision came to.
#[derive(Debug)]
pub enum Verdict {
    /// The state changes.
    Decided(Box<Decision>),
    /// Nothing changes, and the caller is told so.
    Unchanged(Answer),
    /// Not without these.
    Need(Vec<Need>),
    /// The rules say no.
    Refused(Refusal),
}

/// The next state of an aggregate and what goes with it.
#[derive(Debug)]
pub struct Decision {
    /// Its version is one above the one decided on.
    pub state: Aggregate,
    /// In the order in which they are to happen.
    pub effects: Vec<Effect>,
    /// What later decisions of the same batch may find.
    pub facts: Vec<(Need, Fact)>,
    /// For the caller.
    pub answer: Answer,
}

/// Decides what an input does to its aggregate. Total and pure: same arguments, same answer. A
/// refusal changes nothing.
#[must_use]
pub fn decide(
    state: Option<&Aggregate>,
    input: &Input,
    look: Lookup<'_>,
    now: DateTime<Utc>,
) -> Verdict {
    match input {
        Input::ApplyAgent {
            workspace,
            agent: name,
            text,
        } => {
            let known = state.and_then(Aggregate::as_agent);
            agent::apply(known, workspace, name, text, now)
        }
        Input::Contact {
            workspace,
            contact: id,
            input,
        } => {
            let known = state.and_then(Aggregate::as_contact);
            contact::decide(known, workspace, id, input)
        }
        Input::Scope {
            workspace,
            agent,
            input,
        } => scope::decide(state, workspace, agent.as_ref(), input, now),
        Input::WatchEnds { workspace, agent } => match agent {
            Some(name) => agent::watch(state.and_then(Aggregate::as_agent), name),
            None => scope::watch(state.and_then(Aggregate::as_workspace), workspace),
        },
        Input::UnwatchedEnds { agent, watch, .. } => match agent {
            Some(_) => agent::unwatched(state.and_then(Aggregate::as_agent), *watch),
            None => scope::unwatched(state.and_then(Aggregate::as_workspace), *watch),
        },
        Input::WatchRequest(id) => Verdict::Refused(Refusal::RequestWatched(*id)),
        Input::Node { node: name, input } => {
            let known = state.and_then(Aggregate::as_node);
            node::decide(known, name, input, look, now)
        }
        Input::Tool {
            workspace,
            name,
            input,
        } => {
            let known = state.and_then(Aggregate::as_tool);
            tool::decide(known, workspace, name, input)
        }
        Input::Vouched {
            workspace,
            user,
            input,
        } => {
            let need = Need::User(workspace.clone(), user.clone());
            vouched(state, (need, user), input, look, now)
        }
        Input::Users(facts) => Verdict::Decided(Box::new(Decision {
            state: Aggregate::Users,
            effects: vec![Effect::Users(facts.clone())],
            facts: Vec::new(),
            answer: Answer::Nothing(()),
        })),
        Input::UnknownAlarm { id } => Verdict::Refused(Refusal::UnknownAlarm(id.clone())),
        Input::Run {
            workspace,
            run,
            input,
        } => {
            let known = state.and_then(Aggregate::as_run);
            of_run(known, (workspace, *run), input, look, now)
        }
    }
}

/// What is meant for a run: it starts one, or is for one of this workspace.
fn of_run(
    known: Option<&Run>,
    (workspace, run): (&Workspace, RunId),
    input: &RunInput,
    look: Lookup<'_>,
    now: DateTime<Utc>,
) -> Verdict {
    match (known, input) {
        (None, RunInput::Start { .. }) => start::start(workspace, run, input, look, now),
        (Some(known), _) if known.workspace == *workspace => {
            let also = || people::needs_of(known, input);
            settle(follow::then(known, also, look, now, |run, look| {
                decide_run(run, input, look, now)
            }))
        }
        (Some(_), RunInput::Start { .. }) => Verdict::Refused(Refusal::RunIdTaken(run)),
        (Some(_) | None, _) => Verdict::Refused(Refusal::RunNotFound(run)),
    }
}

/// A command counts while whoever gave it is active: it may have waited since. Whoever the copy does not know
/// yet, the gateway does.
fn vouched(
    state: Option<&Aggregate>,
    (need, user): (Need, &UserName),
    input: &Input,
    look: Lookup<'_>,
    now: DateTime<Utc>,
) -> Verdict {
    match look(&need) {
        Found::Here(Fact::User(false)) => Verdict::Refused(Refusal::Disabled(user.clone())),
        Found::Here(_) | Found::Absent => decide(state, input, look, now),
        // Asked for at once with what the command itself needs.
        Found::Unknown => match decide(state, input, look, now) {
            Verdict::Need(mut needs) => {
                needs.push(need);
                Verdict::Need(needs)
            }
            Verdict::Decided(_) | Verdict::Unchanged(_) | Verdict::Refused(_) => {
                Verdict::Need(vec![need])
            }
        },
    }
}

fn settle(result: Result<Verdict, Stop>) -> Verdict {
    match result {
        Ok(verdict) => verdict,
        Err(Stop::Need(needs)) => Verdict::Need(needs),
        Err(Stop::Refused(refusal)) => Verdict::Refused(refusal),
    }
}

/// One arm an input: what it does to a run that is there.
fn decide_run(
    run: &Run,
    input: &RunInput,
    look: Lookup<'_>,
    now: DateTime<Utc>,
) -> Result<Verdict, Stop> {
    let turn = Turn::new(run, look, now);
    match input {
        // The caller asks again under the same id: it is told what there is.
        RunInput::Start { .. } => Ok(Verdict::Unchanged(Answer::Run(Box::new(run.view(now))))),
        RunInput::Pause { by, waiting } => control::pause(turn, by, *waiting),
        RunInput::Resume { by, mode } => control::resume(turn, by, *mode),
        RunInput::Cancel { by, reason } => control::cancel(turn, by, reason.as_deref()),
        // Whoever gives an input has it brought up to its scopes; this one is only for that.
        RunInput::Follow => Ok(Verdict::Unchanged(Answer::Nothing(()))),
        RunInput::Watch => Ok(ending::watch(turn)),
        RunInput::TimerFired { hold, rev } => control::timer_fired(turn, *hold, *rev),
        RunInput::StartStep {
            node,
            step,
            dispatch,
            delivery,
            without_lease,
        } => {
            let delivery = work::Delivery {
                dispatch: *dispatch,
                count: *delivery,
                without_lease: *without_lease,
            };
            work::start(turn, node, step, &delivery)
        }
        RunInput::AskPeople {
            by,
            step,
            dispatch,
            question,
        } => {
            let from = (step.as_deref(), *dispatch);
            people::asking::ask(turn, by, from, question)
        }
        RunInput::StepParks {
            step,
            dispatch,
            duration_ms,
        } => work::parks(turn, step, *dispatch, *duration_ms),
        RunInput::StepResult {
            node,
            step,
            dispatch,
            result,
            error_code,
        } => {
            let report = work::Report {
                node,
                step,
                dispatch: *dispatch,
                result,
                error_code,
            };
            work::report(turn, &report)
        }
        RunInput::LeaseEnded {
            step,
            dispatch,
            node,
        } => uncertain::lease_ended(turn, step, *dispatch, node),
        RunInput::HoldClosed { hold, closing } => people::closed(turn, *hold, closing),
        RunInput::HoldHandled { hold, deeds } => Ok(people::deeds::handled(turn, *hold, deeds)),
        RunInput::TakeOver { by } => people::handing::take_over(turn, by),
        RunInput::Incident { reason } => Ok(control::incident(turn, reason)),
    }
}

/// Answers that change nothing.
const fn stale_timer() -> Verdict {
    Verdict::Unchanged(Answer::Timer(TimerAnswer::Stale))
}

const fn granted(grant: Grant) -> Verdict {
    Verdict::Unchanged(Answer::Grant(grant))
}

const fn known_result() -> Verdict {
    Verdict::Unchanged(Answer::Result(ResultAnswer::Known))
}
