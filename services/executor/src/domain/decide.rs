//! Decides what an input does: which aggregate it is for, and which rule answers it.

mod advance;
mod control;
mod ended_result;
mod ending;
mod follow;
mod outside;
pub(in crate::domain) mod people;
mod start;
mod transition;
mod uncertain;
mod work;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::TimerReply;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::run::RunStatus;
use holdpoint_contracts::steps::{Grant, ResultReply};
use holdpoint_decision::Decider;
use holdpoint_ids::{RunId, UserName, Workspace};

use super::effect::{Effect, Reply};
use super::input::{Input, RunInput};
use super::need::{Aggregate, Fact, Key, Need, RunFact};
use super::refusal::Refusal;
use super::run::Run;
use super::{agent, contact, node, scope, tool};
use crate::domain::decision::{
    Decided, Decision, ExecutorDomain, Lookup, LookupFn, Outcome, Undecided,
};
pub use follow::{Scopes, overlay};
use transition::RunTransition;

impl Decider for ExecutorDomain {
    type Key = Key;
    type State = Aggregate;
    type Input = Input;
    type Need = Need;
    type Fact = Fact;
    type Effect = Effect;
    type Refusal = Refusal;
    type Reply = Reply;

    fn key(input: &Input) -> Key {
        input.key()
    }

    fn decide(
        state: Option<&Aggregate>,
        input: &Input,
        lookup: LookupFn<'_>,
        now: DateTime<Utc>,
    ) -> Decision {
        decide(state, input, lookup, now)
    }

    fn aggregate(need: &Need) -> Option<Key> {
        match need {
            Need::Agent(workspace, agent) => Some(Key::Agent(workspace.clone(), agent.clone())),
            Need::Contact(workspace, contact) => {
                Some(Key::Contact(workspace.clone(), contact.clone()))
            }
            Need::Workspace(workspace) => Some(Key::Workspace(workspace.clone())),
            Need::Run(run) => Some(Key::Run(*run)),
            Need::Tool(workspace, name) => Some(Key::Tool(workspace.clone(), name.clone())),
            Need::Plan(..)
            | Need::Value(..)
            | Need::Request(..)
            | Need::Activities(..)
            | Need::User(..) => None,
        }
    }

    fn fact(state: &Aggregate) -> Option<Fact> {
        match state {
            Aggregate::Agent(agent) => Some(Fact::Agent(Arc::new(agent.clone()))),
            // A deleted contact is as if it had never existed.
            Aggregate::Contact(contact) => (!contact.deleted).then(|| Fact::of_contact(contact)),
            Aggregate::Workspace(scope) => Some(Fact::Workspace(Arc::new(scope.clone()))),
            Aggregate::Run(run) => Some(Fact::Run(Arc::new(RunFact::of(run)))),
            Aggregate::Tool(tool) => Some(Fact::Tool(Arc::new(tool.clone()))),
            Aggregate::Node(_) | Aggregate::Users => None,
        }
    }

    fn is_constant(need: &Need) -> bool {
        matches!(need, Need::Plan(..))
    }

    fn version(state: &Aggregate) -> u64 {
        match state {
            Aggregate::Agent(agent) => agent.version,
            Aggregate::Contact(contact) => contact.version,
            Aggregate::Run(run) => run.version,
            Aggregate::Workspace(scope) => scope.version,
            Aggregate::Node(node) => node.version,
            Aggregate::Tool(tool) => tool.version,
            Aggregate::Users => 1,
        }
    }

    fn is_hot(state: &Aggregate) -> bool {
        match state {
            Aggregate::Agent(_)
            | Aggregate::Workspace(_)
            | Aggregate::Node(_)
            | Aggregate::Tool(_) => true,
            Aggregate::Contact(_) | Aggregate::Users => false,
            // A waiting run is left alone for long; the next thing that happens loads it.
            Aggregate::Run(run) => matches!(run.status(), RunStatus::Queued | RunStatus::Running),
        }
    }

    fn caches_absence(key: &Key) -> bool {
        match key {
            // Every decision on a run looks whether its workspace is paused, every dispatch for its
            // tool; most workspaces were never paused, and most tools came with their nodes.
            Key::Workspace(_) | Key::Tool(..) => true,
            Key::Agent(..)
            | Key::Contact(..)
            | Key::Run(_)
            | Key::Node(_)
            | Key::Users
            | Key::Unknown(_) => false,
        }
    }

    fn problem(refusal: &Refusal) -> Problem {
        refusal.problem()
    }
}

/// Decides what an input does to its aggregate. Total and pure: same arguments, same answer. A
/// refusal changes nothing.
///
/// # Errors
/// [`Undecided`]: data is missing, or a rule rejects the input.
pub fn decide(
    state: Option<&Aggregate>,
    input: &Input,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
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
        Input::WatchRunEnds { workspace, agent } => match agent {
            Some(name) => agent::watch(state.and_then(Aggregate::as_agent), name),
            None => scope::watch(state.and_then(Aggregate::as_workspace), workspace),
        },
        Input::UnwatchedEnds { agent, watch, .. } => match agent {
            Some(_) => agent::unwatched(state.and_then(Aggregate::as_agent), *watch),
            None => scope::unwatched(state.and_then(Aggregate::as_workspace), *watch),
        },
        Input::WatchRequest(id) => Err(Undecided::Refused(Refusal::RequestWatched(*id))),
        Input::Node { node: name, input } => {
            let known = state.and_then(Aggregate::as_node);
            node::decide(known, name, input, lookup, now)
        }
        Input::Tool {
            workspace,
            name,
            input,
        } => {
            let known = state.and_then(Aggregate::as_tool);
            tool::decide(known, workspace, name, input)
        }
        Input::OnBehalfOf {
            workspace,
            user,
            input,
        } => {
            let need = Need::User(workspace.clone(), user.clone());
            require_active_user(state, (need, user), input, lookup, now)
        }
        Input::Users(facts) => Ok(Outcome::Decided(Box::new(Decided {
            state: Aggregate::Users,
            effects: vec![Effect::Users(facts.clone())],
            facts: Vec::new(),
            reply: Reply::Nothing(()),
        }))),
        Input::UnknownTimer { id } => Err(Undecided::Refused(Refusal::UnknownTimer(id.clone()))),
        Input::Run {
            workspace,
            run,
            input,
        } => {
            let known = state.and_then(Aggregate::as_run);
            of_run(known, (workspace, *run), input, lookup, now)
        }
    }
}

/// What is meant for a run: it starts one, or is for one of this workspace.
fn of_run(
    known: Option<&Run>,
    (workspace, run): (&Workspace, RunId),
    input: &RunInput,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    match (known, input) {
        (None, RunInput::Start { .. }) => start::start(workspace, run, input, lookup, now),
        (Some(known), _) if known.workspace == *workspace => {
            let also = || people::needs_of(known, input);
            follow::then(known, also, lookup, now, |run, lookup| {
                decide_run(run, input, lookup, now)
            })
        }
        (Some(_), RunInput::Start { .. }) => Err(Undecided::Refused(Refusal::RunIdTaken(run))),
        (Some(_) | None, _) => Err(Undecided::Refused(Refusal::RunNotFound(run))),
    }
}

/// A command counts while whoever gave it is active: it may have waited since. Whoever the copy does not know
/// yet, the gateway does.
fn require_active_user(
    state: Option<&Aggregate>,
    (need, user): (Need, &UserName),
    input: &Input,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    match lookup(&need) {
        Lookup::Found(Fact::User(false)) => {
            Err(Undecided::Refused(Refusal::Disabled(user.clone())))
        }
        Lookup::Found(_) | Lookup::Missing => decide(state, input, lookup, now),
        // Asked for at once with what the command itself needs.
        Lookup::NotLoaded => match decide(state, input, lookup, now) {
            Err(Undecided::NeedsMore(mut needs)) => {
                needs.push(need);
                Err(Undecided::NeedsMore(needs))
            }
            Ok(Outcome::Decided(_)) | Ok(Outcome::Unchanged(_)) | Err(Undecided::Refused(_)) => {
                Err(Undecided::NeedsMore(vec![need]))
            }
        },
    }
}

/// One arm an input: what it does to a run that is there.
fn decide_run(run: &Run, input: &RunInput, lookup: LookupFn<'_>, now: DateTime<Utc>) -> Decision {
    let transition = RunTransition::new(run, lookup, now);
    match input {
        // The caller asks again under the same id: it is told what there is.
        RunInput::Start { .. } => Ok(Outcome::Unchanged(Reply::Run(Box::new(run.view(now))))),
        RunInput::Pause { by, waiting } => control::pause(transition, by, *waiting),
        RunInput::Resume { by, mode } => control::resume(transition, by, *mode),
        RunInput::Cancel { by, reason } => control::cancel(transition, by, reason.as_deref()),
        // Whoever gives an input has it brought up to its scopes; this one is only for that.
        RunInput::Follow => Ok(Outcome::Unchanged(Reply::Nothing(()))),
        RunInput::Watch => ending::watch(transition),
        RunInput::TimerFired { hold, rev } => control::timer_fired(transition, *hold, *rev),
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
            work::start(transition, node, step, &delivery)
        }
        RunInput::AskPeople {
            by,
            step,
            dispatch,
            question,
        } => {
            let from = (step.as_deref(), *dispatch);
            people::asking::ask(transition, by, from, question)
        }
        RunInput::StepParks {
            step,
            dispatch,
            duration_ms,
        } => work::parks(transition, step, *dispatch, *duration_ms),
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
            work::report(transition, &report)
        }
        RunInput::LeaseEnded {
            step,
            dispatch,
            node,
        } => uncertain::lease_ended(transition, step, *dispatch, node),
        RunInput::HoldClosed { hold, closing } => people::closed(transition, *hold, closing),
        RunInput::HandoffUpdate {
            hold,
            handoff_events,
        } => people::handoff_events::handled(transition, *hold, handoff_events),
        RunInput::TakeOver { by } => people::handing::take_over(transition, by),
        RunInput::Incident { reason } => control::incident(transition, reason),
    }
}

/// Answers that change nothing.
const fn stale_timer() -> Outcome {
    Outcome::Unchanged(Reply::Timer(TimerReply::Stale))
}

const fn granted(grant: Grant) -> Outcome {
    Outcome::Unchanged(Reply::Grant(grant))
}

const fn known_result() -> Outcome {
    Outcome::Unchanged(Reply::Result(ResultReply::Known))
}
