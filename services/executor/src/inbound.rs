//! Translates commands into inputs and checks the rights of their senders.

mod caller;
mod child_runs;
mod operations;
mod results;
mod suspension;
mod tool_questions;

#[cfg(test)]
mod tests;

use std::cell::OnceCell;

use chrono::{DateTime, Utc};
use holdpoint_auth::{Keys, Right};
use holdpoint_contracts::asking::RequestInput;
use holdpoint_contracts::erasure::EraseContact;
use holdpoint_contracts::executor::{
    AddActivity, ApplyAgent, CancelRun, ChildRunsEnded, DeleteAgent, DeleteContact,
    DeleteLibraryEntry, DeleteTool, HandoffsUpdated, HoldsClosed, MigrateRun, PatchContact,
    PatchContext, PauseRun, PauseScope, PutContact, PutLibraryEntry, PutTool, ResumeRun,
    ResumeScope, RetryRun, RunEndsOf, ScheduledStart, SetChildRuns, SignalRun, StartRun,
    StartScheduled, TakeOverRun, TimerFired, TimersFired, WatchRunEnds,
};
use holdpoint_contracts::hold::HoldClosed;
use holdpoint_contracts::message::{Actor, Command, Envelope};
use holdpoint_contracts::operation::{CancelOperation, StartOperation};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::steps::{Deregister, Heartbeat, StartSteps, StepResults};
use holdpoint_contracts::subject::{self, Parts};
use holdpoint_contracts::suspension::{ContinueStep, PutBlob, SuspendRun, SuspendSteps};
use holdpoint_contracts::tool::RegisterTools;
use holdpoint_ids::{AgentName, HoldId, RunId, Workspace};
use holdpoint_kernel::DecodedCommand;
use serde_json::Value;

use crate::domain::run::Signal;
use crate::domain::run::person_hold::HoldClosure;
use crate::domain::{
    ContactInput, DeliveredStep, Input, LibraryChange, LibraryInput, NodeInput, RunInput,
    ScopeInput, ToolInput, ToolPut,
};
use crate::outbound::NODE_TIMER;
use crate::outbound::child_runs::parent_of;

use caller::{Caller, ITEMS_MAX, run_input};
use results::printable_code;

/// Most steps that a node may name in a heartbeat: those it may run, and as many with unacknowledged results.
const WORKING_MAX: usize = 8_192;

type Decoded = Result<DecodedCommand<Input>, Problem>;

pub(crate) fn decode(parts: &Parts, body: &[u8], keys: &Keys, now: DateTime<Utc>) -> Decoded {
    let caller = Caller {
        workspace: &parts.workspace,
        trust: &keys.trust,
        now,
        user: OnceCell::new(),
    };
    let request = match parts.verb.as_str() {
        RequestInput::VERB => tool_questions::decode(body, &caller, &keys.steps),
        PutBlob::VERB => suspension::decode_blob(body, &caller, &keys.steps),
        ContinueStep::VERB => suspension::decode_continued(body, &caller, &keys.steps),
        verb @ (SetChildRuns::VERB | ChildRunsEnded::VERB) => {
            child_runs::decode(verb, body, &caller)
        }
        verb => decode_definition(verb, body, &caller),
    }?;
    Ok(caller.require_active_user(request))
}

/// Reads a command for a tool, a template or a calendar.
fn decode_tool_or_entry(verb: &str, body: &[u8], caller: &Caller<'_>) -> Decoded {
    let workspace = caller.workspace.clone();
    let tool = |name, input| Input::Tool {
        workspace: workspace.clone(),
        name,
        input,
    };
    let library = |kind, name, change, by| Input::Library {
        workspace: workspace.clone(),
        input: LibraryInput {
            kind,
            name,
            change,
            by,
        },
    };
    let right = Right::Operate;
    match verb {
        PutTool::VERB => caller.read_one(body, right, |it: PutTool, by| {
            let (spec, seen) = (it.tool, it.seen);
            let name = spec.name.clone();
            tool(name, ToolInput::Put(Box::new(ToolPut { spec, seen, by })))
        }),
        DeleteTool::VERB => caller.read_one(body, right, |it: DeleteTool, by| {
            tool(it.name, ToolInput::Delete { by })
        }),
        PutLibraryEntry::VERB => caller.read_one(body, right, |it: PutLibraryEntry, by| {
            library(it.kind, it.name, LibraryChange::Put(it.value), by)
        }),
        _ => caller.read_one(body, right, |it: DeleteLibraryEntry, by| {
            library(it.kind, it.name, LibraryChange::Delete, by)
        }),
    }
}

/// Reads a command for an agent, a contact or all runs of an agent or workspace.
fn decode_definition(verb: &str, body: &[u8], caller: &Caller<'_>) -> Decoded {
    let workspace = caller.workspace.clone();
    let contact = |contact, input| Input::Contact {
        workspace: caller.workspace.clone(),
        contact,
        input,
    };
    match verb {
        ApplyAgent::VERB => caller.read_one(body, Right::Operate, |it: ApplyAgent, _| {
            Input::ApplyAgent {
                workspace,
                agent: it.agent,
                text: it.text,
            }
        }),
        PutTool::VERB | DeleteTool::VERB | PutLibraryEntry::VERB | DeleteLibraryEntry::VERB => {
            decode_tool_or_entry(verb, body, caller)
        }
        PutContact::VERB => caller.read_one(body, Right::Ask, |it: PutContact, _| {
            let put = ContactInput::Put {
                fields: it.fields,
                merge: it.merge,
                silent: it.silent,
            };
            contact(it.contact, put)
        }),
        PatchContact::VERB => caller.read_one(body, Right::Ask, |it: PatchContact, _| {
            let (patch, tags) = (it.patch, it.tags);
            contact(it.contact, ContactInput::Patch { patch, tags })
        }),
        AddActivity::VERB => caller.read_one(body, Right::Ask, |it: AddActivity, _| {
            let input = ContactInput::Say {
                id: printable_code(&it.id),
                activity: it.activity,
                patch: it.patch,
            };
            contact(it.contact, input)
        }),
        DeleteContact::VERB => caller.read_one(body, Right::Operate, |it: DeleteContact, _| {
            contact(it.contact, ContactInput::Delete)
        }),
        EraseContact::VERB => caller.read_one(body, Right::Administer, |it: EraseContact, by| {
            Input::EraseContact {
                workspace,
                contact: it.contact,
                by,
            }
        }),
        PauseScope::VERB => decode_scope(body, caller, |it: PauseScope, by| {
            let (waiting, new) = (it.waiting, it.new);
            (it.agent, ScopeInput::Pause { by, waiting, new })
        }),
        ResumeScope::VERB => decode_scope(body, caller, |it: ResumeScope, by| {
            (it.agent, ScopeInput::Resume { by, mode: it.mode })
        }),
        DeleteAgent::VERB => decode_scope(body, caller, |it: DeleteAgent, by| {
            (Some(it.agent), ScopeInput::Delete { by })
        }),
        _ => decode_run_command(verb, body, caller),
    }
}

/// An operator may pause an agent. The whole workspace needs an administrator.
fn decode_scope<C: Command>(
    body: &[u8],
    caller: &Caller<'_>,
    input: impl FnOnce(C, Actor) -> (Option<AgentName>, ScopeInput),
) -> Decoded {
    let it: Envelope<C> = caller.read(body, Some(Right::Operate))?;
    let (agent, input) = input(it.command, it.actor);
    if agent.is_none() {
        caller.read::<C>(body, Some(Right::Administer))?;
    }
    let input = Input::Scope {
        workspace: caller.workspace.clone(),
        agent,
        input,
    };
    Ok(DecodedCommand::one(input, it.key))
}

/// What becomes of a step that may have had its effect is a person's decision. A program has no assertion of one.
fn decode_resume(body: &[u8], caller: &Caller<'_>) -> Decoded {
    let it: Envelope<ResumeRun> = caller.read(body, Some(Right::Operate))?;
    if it.command.step.is_some() {
        caller.read::<ResumeRun>(body, Some(Right::Decide))?;
    }
    let (mode, step, by) = (it.command.mode, it.command.step, it.actor);
    let input = caller.run_input(it.command.run, RunInput::Resume { by, mode, step });
    Ok(DecodedCommand::one(input, it.key))
}

/// Reads a command of a user or program for one run.
fn decode_run_command(verb: &str, body: &[u8], caller: &Caller<'_>) -> Decoded {
    match verb {
        StartRun::VERB => caller.read_one(body, Right::Ask, |it: StartRun, by| {
            let input = RunInput::Start {
                agent: it.agent,
                input: it.input,
                contact: it.contact,
                labels: it.labels,
                by,
            };
            caller.run_input(it.run, input)
        }),
        PauseRun::VERB => caller.read_one(body, Right::Operate, |it: PauseRun, by| {
            let waiting = it.waiting;
            caller.run_input(it.run, RunInput::Pause { by, waiting })
        }),
        ResumeRun::VERB => decode_resume(body, caller),
        SuspendRun::VERB => suspension::decode_run(body, caller),
        TakeOverRun::VERB => caller.read_one(body, Right::Operate, |it: TakeOverRun, by| {
            caller.run_input(it.run, RunInput::TakeOver { by })
        }),
        CancelRun::VERB => caller.read_one(body, Right::Operate, |it: CancelRun, by| {
            let reason = it.reason;
            caller.run_input(it.run, RunInput::Cancel { by, reason })
        }),
        RetryRun::VERB => caller.read_one(body, Right::Operate, |it: RetryRun, by| {
            let from = it.from_step;
            caller.run_input(it.run, RunInput::Retry { by, from })
        }),
        MigrateRun::VERB => caller.read_one(body, Right::Operate, |it: MigrateRun, by| {
            let version = it.version;
            caller.run_input(it.run, RunInput::Migrate { by, version })
        }),
        PatchContext::VERB => caller.read_one(body, Right::Operate, |it: PatchContext, by| {
            let patch = it.patch;
            caller.run_input(it.run, RunInput::PatchContext { by, patch })
        }),
        StartOperation::VERB => operations::decode_start(body, caller),
        CancelOperation::VERB => operations::decode_cancel(body, caller),
        SignalRun::VERB => caller.read_one(body, Right::Ask, |it: SignalRun, by| {
            let SignalRun {
                run,
                name,
                data,
                key,
            } = it;
            let signal = Signal { name, data, key };
            caller.run_input(run, RunInput::Signal { by, signal })
        }),
        _ => decode_report(verb, body, caller),
    }
}

/// Reads a report of a service or a worker.
fn decode_report(verb: &str, body: &[u8], caller: &Caller<'_>) -> Decoded {
    match verb {
        TimersFired::VERB => {
            let it: Envelope<TimersFired> = caller.read(body, None)?;
            Caller::inputs(it.command.fired, |fired| {
                timer_input(caller.workspace, fired)
            })
        }
        StartScheduled::VERB => {
            let it: Envelope<StartScheduled> = caller.read(body, None)?;
            Caller::inputs(it.command.starts, |start| start_input(caller, start))
        }
        HoldsClosed::VERB => {
            let it: Envelope<HoldsClosed> = caller.read(body, None)?;
            Caller::inputs(it.command.closed, |closed| closure_input(caller, closed))
        }
        HandoffsUpdated::VERB => {
            let it: Envelope<HandoffsUpdated> = caller.read(body, None)?;
            Caller::inputs(it.command.handled, |update| {
                let input = RunInput::HandoffUpdate {
                    hold: update.id,
                    handoff_events: update.handoff_events,
                };
                caller.run_input(update.id.run, input)
            })
        }
        WatchRunEnds::VERB => {
            let it: Envelope<WatchRunEnds> = caller.read(body, None)?;
            Caller::inputs(it.command.of, |of| watch_input(caller, of))
        }
        StartSteps::VERB => {
            let it: Envelope<StartSteps> = caller.read(body, None)?;
            let node = it.command.node;
            Caller::inputs(it.command.steps, |it| {
                let input = RunInput::StartStep(DeliveredStep {
                    node: node.clone(),
                    step: it.step,
                    dispatch: it.dispatch,
                    delivery: it.delivery,
                    without_lease: it.without_lease,
                    is_high_risk: it.high_risk,
                    is_idempotent: it.idempotent,
                });
                caller.run_input(it.run, input)
            })
        }
        StepResults::VERB => results::decode(body, caller),
        SuspendSteps::VERB => suspension::decode_steps(body, caller),
        RegisterTools::VERB => {
            let it: Envelope<RegisterTools> = caller.read(body, None)?;
            let RegisterTools { node, tools } = it.command;
            Caller::inputs(tools, |spec| Input::Tool {
                workspace: caller.workspace.clone(),
                name: spec.name.clone(),
                input: ToolInput::Offer {
                    node: node.clone(),
                    spec: Box::new(spec),
                },
            })
        }
        Heartbeat::VERB => decode_heartbeat(caller.read(body, None)?),
        Deregister::VERB => {
            let it: Envelope<Deregister> = caller.read(body, None)?;
            let (node, input) = (it.command.node, NodeInput::Deregister);
            Ok(DecodedCommand::one(Input::Node { node, input }, it.key))
        }
        other => {
            let detail = format!("unknown command `{other}` of the executor");
            Err(Problem::not_found(detail))
        }
    }
}

fn start_input(caller: &Caller<'_>, start: ScheduledStart) -> Input {
    caller.run_input(start.run, RunInput::StartScheduled(Box::new(start)))
}

fn watch_input(caller: &Caller<'_>, of: RunEndsOf) -> Input {
    let ends = |agent| Input::WatchRunEnds {
        workspace: caller.workspace.clone(),
        agent,
    };
    match of {
        RunEndsOf::Run(id) => caller.run_input(id, RunInput::Watch),
        RunEndsOf::Agent(agent) => ends(Some(agent)),
        RunEndsOf::All => ends(None),
        RunEndsOf::Request(id) => Input::WatchRequest(id),
    }
}

/// The timer of a hold or a node. Any other id is refused without affecting the other timers.
fn timer_input(workspace: &Workspace, fired: TimerFired) -> Input {
    let TimerFired { id, rev, .. } = fired;
    if let Ok(hold) = id.parse::<HoldId>() {
        return run_input(workspace, hold.run, RunInput::TimerFired { hold, rev });
    }
    let node = id.strip_prefix(NODE_TIMER).map(str::parse);
    match node {
        Some(Ok(node)) if workspace.as_str() == subject::SYSTEM_WORKSPACE => Input::Node {
            node,
            input: NodeInput::HeartbeatMissed { rev },
        },
        Some(_) | None => Input::UnknownTimer { id },
    }
}

fn closure_input(caller: &Caller<'_>, closed: HoldClosed) -> Input {
    let closing = HoldClosure {
        outcome: closed.outcome,
        data: closed.data,
        by: closed.by,
        at: closed.at,
        handoff_events: closed.handoff_events,
        by_rung: closed.by_rung,
        approval: closed.approval,
    };
    let hold = closed.id;
    caller.run_input(hold.run, RunInput::HoldClosed { hold, closing })
}

fn decode_heartbeat(envelope: Envelope<Heartbeat>) -> Decoded {
    let it = envelope.command;
    if it.working.len().max(it.tools.len()) > WORKING_MAX {
        return Err(Problem::invalid_body(format!(
            "a beat names at most {WORKING_MAX} steps and as many tools"
        )));
    }
    let (node, input) = (it.node.clone(), NodeInput::Heartbeat(it));
    let input = Input::Node { node, input };
    Ok(DecodedCommand::one(input, envelope.key))
}

/// The runs that a dead letter concerns: each gets an incident.
pub(crate) fn incident(subject: &str, body: &[u8], reason: &str) -> Vec<Input> {
    let incident_input = |workspace: &Workspace, id| {
        let reason = reason.to_owned();
        run_input(workspace, id, RunInput::Incident { reason })
    };
    if let Some((workspace, id)) = run_of_desired_state(subject) {
        return vec![incident_input(&workspace, id)];
    }
    let Some(parts) = subject::parse(subject) else {
        return Vec::new();
    };
    let Ok(envelope) = serde_json::from_slice::<Value>(body) else {
        return Vec::new();
    };
    let command = envelope.get("command").unwrap_or(&Value::Null);
    let mut runs: Vec<RunId> = run_of(command).into_iter().collect();
    for list in [
        "steps", "results", "fired", "closed", "handled", "ends", "children",
    ] {
        let items = command.get(list).and_then(Value::as_array);
        runs.extend(items.into_iter().flatten().filter_map(run_of));
    }
    runs.sort();
    runs.dedup();
    runs.truncate(ITEMS_MAX);
    let inputs = runs
        .into_iter()
        .map(|id| incident_input(&parts.workspace, id));
    inputs.collect()
}

/// The run that an input of a dead letter concerns.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "an incident is of a run; no other input has one"
)]
pub(crate) fn incident_of(input: &Input, reason: &str) -> Option<Input> {
    match input {
        Input::OnBehalfOf { input, .. } => incident_of(input, reason),
        Input::Run {
            workspace,
            run: id,
            input: given,
        } if !matches!(given, RunInput::Start { .. } | RunInput::StartScheduled(_)) => {
            let reason = reason.to_owned();
            Some(run_input(workspace, *id, RunInput::Incident { reason }))
        }
        _ => None,
    }
}

/// The run of a desired state that exceeds a message: `desired_state.<workspace>.<kind>.<id>`.
fn run_of_desired_state(subject: &str) -> Option<(Workspace, RunId)> {
    let mut tokens = subject.strip_prefix("desired_state.")?.splitn(3, '.');
    let workspace = tokens.next()?.parse().ok()?;
    let id = tokens.nth(1)?;
    let by_hold = || {
        let hold = id.parse().ok();
        hold.map_or_else(|| parent_of(id), |hold: HoldId| Some(hold.run))
    };
    Some((workspace, id.parse().ok().or_else(by_hold)?))
}

fn run_of(item: &Value) -> Option<RunId> {
    let text = |field| item.get(field).and_then(Value::as_str);
    let by_hold = || text("id").and_then(|id| id.parse::<HoldId>().ok());
    text("run")
        .and_then(|run| run.parse().ok())
        .or_else(|| by_hold().map(|hold| hold.run))
}
