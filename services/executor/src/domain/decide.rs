//! Selects the command for an input, then adds the derived effects.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::ScheduledStartReply;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::run::RunStatus;
use holdpoint_contracts::subject::SYSTEM_WORKSPACE;
use holdpoint_decision::Decider;
use holdpoint_ids::{RunId, ToolName, UserName, Workspace};

use crate::domain::commands::apply_agent::apply_agent;
use crate::domain::commands::cancel_run::cancel_run;
use crate::domain::commands::change_library::change_library;
use crate::domain::commands::child_runs_ended::{end_child_run, ignored, refuse_child_run};
use crate::domain::commands::contact_replied::contact_replied;
use crate::domain::commands::erase_contact::{complete_erasure, erase_contact, erase_run};
use crate::domain::commands::handoffs_updated::update_handoff;
use crate::domain::commands::heartbeat::change_node;
use crate::domain::commands::holds_closed::close_hold;
use crate::domain::commands::lease_ended::end_lease;
use crate::domain::commands::migrate_run::migrate_run;
use crate::domain::commands::patch_context::patch_context;
use crate::domain::commands::pause_run::pause_run;
use crate::domain::commands::pause_scope::change_scope;
use crate::domain::commands::put_contact::change_contact;
use crate::domain::commands::put_tool::{delete_tool, put_tool};
use crate::domain::commands::record_incident::record_incident;
use crate::domain::commands::register_tools::{Registration, register_tool};
use crate::domain::commands::report_tool_availability::report_tool_availability;
use crate::domain::commands::request_input::request_input;
use crate::domain::commands::resume_run::resume_run;
use crate::domain::commands::retry_run::retry_run;
use crate::domain::commands::set_child_runs::{set_child_run, start_child_run};
use crate::domain::commands::signal_run::signal_run;
use crate::domain::commands::start_operation::change_operation;
use crate::domain::commands::start_run::start_run;
use crate::domain::commands::start_scheduled::start_scheduled;
use crate::domain::commands::start_steps::start_delivered_step;
use crate::domain::commands::step_results::{park_step, report_result};
use crate::domain::commands::suspension::continue_step::continue_step;
use crate::domain::commands::suspension::put_blob::put_blob;
use crate::domain::commands::suspension::suspend_run::suspend_run;
use crate::domain::commands::suspension::suspend_steps::suspend_step;
use crate::domain::commands::take_over_run::take_over_run;
use crate::domain::commands::take_place::take_place;
use crate::domain::commands::timers_fired::fire_timer;
use crate::domain::commands::watch_run_ends::{unwatch_scope, watch_run, watch_scope};
use crate::domain::decision::{
    Decision, ExecutorDomain, InWorkspace, Lookup, LookupFn, Outcome, Undecided, decided,
};
use crate::domain::effect::{Effect, Reply};
use crate::domain::input::{Input, OperationItem, RunInput, ToolInput};
use crate::domain::model::run::Run;
use crate::domain::need::{Aggregate, Fact, Key, Need, RunFact};
use crate::domain::refusal::Refusal;
use crate::domain::rules::derived_effects::finish;
use crate::domain::rules::open_hold_needs::input_needs;
use crate::domain::rules::operation_items::decide_once;
use crate::domain::rules::scope_sync::with_scopes_applied;
use crate::domain::transition::{RunDecision, RunOutcome, RunTransition};

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
            Need::State(key) => Some(key.clone()),
            Need::Plan(..)
            | Need::GeneratedPlan(_)
            | Need::Value(..)
            | Need::Request(..)
            | Need::FailedAttempts(..)
            | Need::Activities(..)
            | Need::ToolCalls(_)
            | Need::Snapshot(_)
            | Need::OperationResult(..)
            | Need::RunningOperations(_)
            | Need::ToolCount(_)
            | Need::User(..)
            | Need::DirectoryAge
            | Need::Places(_)
            | Need::Starts(_)
            | Need::StartedOnce(_) => None,
        }
    }

    fn fact(state: &Aggregate) -> Option<Fact> {
        match state {
            Aggregate::Agent(agent) => Some(Fact::Agent(Arc::new(agent.clone()))),
            // A deleted contact does not exist for others.
            Aggregate::Contact(contact) => (!contact.deleted).then(|| Fact::of_contact(contact)),
            Aggregate::Workspace(scope) => Some(Fact::Workspace(Arc::new(scope.clone()))),
            Aggregate::Run(run) => Some(Fact::Run(Arc::new(RunFact::of(run)))),
            Aggregate::Tool(tool) => Some(Fact::Tool(Arc::new(tool.without_records()))),
            Aggregate::Library(library) => Some(Fact::Library(Arc::new(library.clone()))),
            Aggregate::Operation(it) => Some(Fact::Operation(Arc::new(it.clone()))),
            Aggregate::Node(_) | Aggregate::Stateless => None,
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
            Aggregate::Library(library) => library.version,
            Aggregate::Operation(operation) => operation.version,
            Aggregate::Stateless => 1,
        }
    }

    fn is_hot(state: &Aggregate) -> bool {
        match state {
            Aggregate::Agent(_)
            | Aggregate::Workspace(_)
            | Aggregate::Node(_)
            | Aggregate::Tool(_) => true,
            Aggregate::Contact(_)
            | Aggregate::Library(_)
            | Aggregate::Operation(_)
            | Aggregate::Stateless => false,
            // A waiting run gets no input for long. The next one loads it.
            Aggregate::Run(run) => {
                let is_hot = matches!(run.status(), RunStatus::Queued | RunStatus::Running);
                is_hot && !run.is_queued_by_limits()
            }
        }
    }

    fn caches_absence(key: &Key) -> bool {
        match key {
            // Every decision on a run checks whether its workspace is paused, and every dispatch loads its
            // tool. Most workspaces were never paused, and most tools come with their nodes.
            Key::Workspace(_) | Key::Tool(..) => true,
            Key::Agent(..)
            | Key::Contact(..)
            | Key::Run(_)
            | Key::Node(_)
            | Key::Library(_)
            | Key::Operation(_)
            | Key::Users
            | Key::ExpiredRuns
            | Key::Unknown(_) => false,
        }
    }

    fn problem(refusal: &Refusal) -> Problem {
        refusal.problem()
    }

    fn problem_after_commit(reply: &Reply) -> Option<Problem> {
        reply
            .try_as_refused_ref()
            .map(|problem| (**problem).clone())
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
            let known = state.and_then(Aggregate::try_as_agent_ref);
            apply_agent(known, InWorkspace::new(workspace, name), text, lookup, now)
        }
        Input::Contact {
            workspace,
            contact: id,
            input,
        } => {
            let known = state.and_then(Aggregate::try_as_contact_ref);
            change_contact(known, InWorkspace::new(workspace, id), input, now)
        }
        Input::EraseContact { .. } | Input::ErasureCompleted { .. } | Input::EraseRun { .. } => {
            decide_erasure(state, input, now)
        }
        Input::Scope {
            workspace,
            agent,
            input,
        } => change_scope(state, workspace, agent.as_ref(), input, now),
        Input::WatchRunEnds { workspace, agent } => watch_scope(state, workspace, agent.as_ref()),
        Input::UnwatchedEnds { watch, .. } => unwatch_scope(state, *watch),
        Input::WatchRequest(id) => Err(Refusal::RequestWatched(*id).into()),
        Input::Node { node: name, input } => {
            let known = state.and_then(Aggregate::try_as_node_ref);
            change_node(known, name, input, lookup, now)
        }
        Input::Tool {
            workspace,
            name,
            input,
        } => {
            let of = InWorkspace::new(workspace, name);
            decide_tool(state, of, input, lookup, now)
        }
        Input::Library { workspace, input } => change_library(state, workspace, input, now),
        Input::Operation {
            workspace,
            id,
            input,
        } => {
            let known = state.and_then(Aggregate::try_as_operation_ref);
            change_operation(known, InWorkspace::new(workspace, *id), input, lookup, now)
        }
        Input::OperationItem(item) => {
            let known = state.and_then(Aggregate::try_as_run_ref);
            decide_item(known, item, lookup, now)
        }
        Input::OnBehalfOf {
            workspace,
            user,
            input,
        } => require_active_user(state, (workspace, user), input, lookup, now),
        Input::Users(changes) => carry_out(Effect::Users(changes.clone())),
        &Input::DeleteExpiredRuns { before } => carry_out(Effect::DeleteExpiredRuns { before }),
        &Input::DeleteExpiredBlobs { before } => carry_out(Effect::DeleteExpiredBlobs { before }),
        Input::UnknownTimer { id } => Err(Refusal::UnknownTimer(id.clone()).into()),
        Input::Run {
            workspace,
            run,
            input,
        } => start_or_change_run(state, InWorkspace::new(workspace, *run), input, lookup, now),
    }
}

/// An erasure of a contact or of one of its runs.
fn decide_erasure(state: Option<&Aggregate>, input: &Input, now: DateTime<Utc>) -> Decision {
    let contact = state.and_then(Aggregate::try_as_contact_ref);
    if let Input::EraseContact {
        contact: id, by, ..
    } = input
    {
        return erase_contact(contact, id, by, now);
    }
    if let Input::ErasureCompleted { at, .. } = input {
        return complete_erasure(contact, *at, now);
    }
    let Input::EraseRun {
        workspace,
        run,
        contact,
        tasks,
    } = input
    else {
        return Ok(Outcome::Unchanged(Reply::Nothing(())));
    };
    let known = state.and_then(Aggregate::try_as_run_ref);
    let known = known.filter(|known| known.workspace == *workspace);
    erase_run(known.ok_or(Refusal::RunNotFound(*run))?, contact, tasks)
}

/// A decision without a state of its own: only its effect writes rows.
fn carry_out(effect: Effect) -> Decision {
    decided(Aggregate::Stateless, vec![effect], Reply::Nothing(()))
}

fn start_or_change_run(
    state: Option<&Aggregate>,
    of: InWorkspace<'_, RunId>,
    input: &RunInput,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    let InWorkspace { workspace, id: run } = of;
    match state.and_then(Aggregate::try_as_run_ref) {
        Some(known) if known.workspace == *workspace => change_run(known, input, lookup, now),
        None => start_fresh_run(workspace, run, input, lookup, now),
        // A run of another workspace does not exist for this one, but its id is taken.
        Some(_) if is_start(input) => Err(Refusal::RunIdTaken(run).into()),
        Some(_) => Err(Refusal::RunNotFound(run).into()),
    }
}

fn change_run(run: &Run, input: &RunInput, lookup: LookupFn<'_>, now: DateTime<Utc>) -> Decision {
    let also = || input_needs(run, input);
    with_scopes_applied(run, also, lookup, now, |run, lookup| {
        finish(decide_run(run, input, lookup, now))
    })
}

/// Applies the action of an operation to one run. The run may have been deleted since the page was read.
fn decide_item(
    known: Option<&Run>,
    item: &OperationItem,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    let known = known.filter(|run| run.workspace == item.workspace);
    let run = known.ok_or(Refusal::RunNotFound(item.run))?;
    decide_once(item, run, lookup, now, || {
        change_run(run, &item.input, lookup, now)
    })
}

fn decide_tool(
    state: Option<&Aggregate>,
    of: InWorkspace<'_, &ToolName>,
    input: &ToolInput,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    let known = state.and_then(Aggregate::try_as_tool_ref);
    let (workspace, name) = (of.workspace, of.id);
    match input {
        ToolInput::Offer { node, spec } => {
            let registration = Registration {
                workspace,
                node,
                spec,
            };
            register_tool(known, registration, lookup, now)
        }
        // No operator works in the workspace of the nodes.
        ToolInput::Put(_) | ToolInput::Delete { .. } if workspace.as_str() == SYSTEM_WORKSPACE => {
            Err(Refusal::ToolNotFound(name.clone()).into())
        }
        ToolInput::Put(put) => put_tool(known, workspace, put, lookup, now),
        ToolInput::Delete { by } => delete_tool(known, name, by, now),
    }
}

fn start_fresh_run(
    workspace: &Workspace,
    run: RunId,
    input: &RunInput,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    if let RunInput::StartScheduled(start) = input {
        return start_scheduled(workspace, run, start, lookup, now);
    }
    if let RunInput::SetChildRun(desired) = input {
        return start_child_run(workspace, desired, lookup, now);
    }
    if let RunInput::ChildRunEnded(_) | RunInput::ChildRunRefused(_) = input {
        return finish(Ok(ignored()));
    }
    start_run(workspace, run, input, lookup, now)
}

const fn is_start(input: &RunInput) -> bool {
    matches!(
        input,
        RunInput::Start { .. } | RunInput::StartScheduled(_) | RunInput::SetChildRun(_)
    )
}

/// A command counts while its user is active: it may have waited. The gateway knows users that this copy does
/// not have yet.
fn require_active_user(
    state: Option<&Aggregate>,
    (workspace, user): (&Workspace, &UserName),
    input: &Input,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    let need = Need::User(workspace.clone(), user.clone());
    match lookup(&need) {
        Lookup::Found(Fact::User(found)) if !found.is_active => {
            Err(Refusal::Disabled(user.clone()).into())
        }
        Lookup::Found(_) | Lookup::Missing => decide(state, input, lookup, now),
        // Loaded together with the needs of the command.
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

fn decide_run<'a>(
    run: &'a Run,
    input: &RunInput,
    lookup: LookupFn<'a>,
    now: DateTime<Utc>,
) -> RunDecision<'a> {
    let transition = RunTransition::new(run, lookup, now);
    match input {
        // The caller repeats the start under the same id and gets the run.
        RunInput::Start { .. } => Ok(RunOutcome::Unchanged(Reply::Run(run.started(true, now)))),
        RunInput::StartScheduled(_) => Ok(RunOutcome::Unchanged(Reply::ScheduledStart(
            ScheduledStartReply::Started,
        ))),
        RunInput::SetChildRun(desired) => set_child_run(transition, desired),
        RunInput::ChildRunEnded(end) => end_child_run(transition, end),
        RunInput::ChildRunRefused(refused) => refuse_child_run(transition, refused),
        RunInput::Pause { by, waiting } => pause_run(transition, by, *waiting),
        RunInput::Resume { by, mode, step } => resume_run(transition, by, *mode, step.as_ref()),
        RunInput::Suspend { by, reason } => suspend_run(transition, by, reason.as_deref()),
        RunInput::Cancel { by, reason } => cancel_run(transition, by, reason.as_deref()),
        RunInput::Retry { by, from } => retry_run(transition, by, from.as_deref()),
        RunInput::Migrate { by, version } => migrate_run(transition, by, *version),
        RunInput::PatchContext { by, patch } => patch_context(transition, by, patch),
        RunInput::Signal { by, signal } => signal_run(transition, by, signal),
        // Scopes are applied before every input. This input only triggers that.
        RunInput::ApplyScopes => Ok(RunOutcome::Unchanged(Reply::Nothing(()))),
        RunInput::TakePlace => take_place(transition),
        RunInput::ContactReplied => contact_replied(transition),
        RunInput::ToolAvailability {
            step,
            dispatch,
            tool,
            is_offered,
        } => report_tool_availability(transition, step, *dispatch, tool, *is_offered),
        RunInput::Watch => watch_run(transition),
        RunInput::TimerFired { hold, rev } => fire_timer(transition, *hold, *rev),
        RunInput::StartStep(delivered) => start_delivered_step(transition, delivered),
        RunInput::AskPeople {
            by,
            step,
            dispatch,
            question,
        } => request_input(transition, by, step.as_deref(), *dispatch, question),
        RunInput::StepParks {
            step,
            dispatch,
            duration_ms,
        } => park_step(transition, step, *dispatch, *duration_ms),
        RunInput::StepResult(report) => report_result(transition, report),
        RunInput::SuspendStep(report) => suspend_step(transition, report),
        RunInput::PutBlob(upload) => put_blob(transition, upload),
        RunInput::ContinueStep(call) => continue_step(transition, call),
        RunInput::LeaseEnded {
            step,
            dispatch,
            node,
        } => end_lease(transition, step, *dispatch, node),
        RunInput::HoldClosed { hold, closing } => close_hold(transition, *hold, closing),
        RunInput::HandoffUpdate {
            hold,
            handoff_events,
        } => update_handoff(transition, *hold, handoff_events),
        RunInput::TakeOver { by } => take_over_run(transition, by),
        RunInput::Incident { reason } => record_incident(transition, reason),
    }
}

#[cfg(test)]
mod tests;
