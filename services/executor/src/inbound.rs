//! Translates commands into inputs and checks the rights of their senders.

mod caller;
mod results;
mod scopes;
mod tool_questions;

#[cfg(test)]
mod tests;

use std::cell::OnceCell;

use chrono::{DateTime, Utc};
use holdpoint_auth::{Keys, Right};
use holdpoint_contracts::asking::RequestInput;
use holdpoint_contracts::executor::{
    AddActivity, ApplyAgent, CancelRun, DeleteAgent, DeleteContact, DeleteTool, HandoffsUpdated,
    HoldsClosed, PatchContact, PauseRun, PauseScope, PutContact, PutTool, ResumeRun, ResumeScope,
    RunEndsOf, StartRun, TakeOverRun, TimerFired, TimersFired, WatchRunEnds,
};
use holdpoint_contracts::hold::{HandoffUpdate, HoldClosed};
use holdpoint_contracts::message::{Command, Envelope};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::steps::{Deregister, Heartbeat, StartSteps, StepResults};
use holdpoint_contracts::subject::{self, Parts};
use holdpoint_ids::{HoldId, RunId, Workspace};
use holdpoint_kernel::DecodedCommand;
use serde_json::Value;

use crate::domain::ContactInput;
use crate::domain::run::person_hold::HoldClosure;
use crate::domain::{Input, NodeInput, RunInput, ToolInput};
use crate::outbound::NODE_TIMER;

use caller::Caller;

/// Most steps, results or timers of one message.
const ITEMS_MAX: usize = 1_000;

/// Longest code of a failure, in characters; a longer one is cut.
const CODE_CHARS_MAX: usize = 100;

/// Most steps that a node may name in a heartbeat: those it may run, and as many with unacknowledged results.
const WORKING_MAX: usize = 8_192;

/// Reads one command.
pub(crate) fn decode(
    parts: &Parts,
    body: &[u8],
    keys: &Keys,
    now: DateTime<Utc>,
) -> Result<DecodedCommand<Input>, Problem> {
    let caller = Caller {
        workspace: &parts.workspace,
        trust: &keys.trust,
        now,
        user: OnceCell::new(),
    };
    let request = commanded(parts, body, &caller, keys)?;
    Ok(caller.require_active_user(request))
}

fn commanded(
    parts: &Parts,
    body: &[u8],
    caller: &Caller<'_>,
    keys: &Keys,
) -> Result<DecodedCommand<Input>, Problem> {
    match parts.verb.as_str() {
        ApplyAgent::VERB | PutTool::VERB | DeleteTool::VERB => {
            definition(&parts.verb, body, caller)
        }
        PutContact::VERB | PatchContact::VERB | AddActivity::VERB | DeleteContact::VERB => {
            contact(&parts.verb, body, caller)
        }
        StartRun::VERB | PauseRun::VERB | ResumeRun::VERB | CancelRun::VERB | TakeOverRun::VERB => {
            by_people(&parts.verb, body, caller)
        }
        PauseScope::VERB | ResumeScope::VERB | DeleteAgent::VERB => {
            scopes::decode(&parts.verb, body, caller)
        }
        RequestInput::VERB => tool_questions::decode(body, caller, &keys.steps),
        TimersFired::VERB | HoldsClosed::VERB | HandoffsUpdated::VERB | WatchRunEnds::VERB => {
            by_services(&parts.verb, body, caller)
        }
        StartSteps::VERB | StepResults::VERB | Heartbeat::VERB | Deregister::VERB => {
            by_workers(&parts.verb, body, caller)
        }
        other => Err(unknown(other)),
    }
}

fn unknown(verb: &str) -> Problem {
    Problem::not_found(format!("unknown command `{verb}` of the executor"))
}

/// Agents and tools.
fn definition(
    verb: &str,
    body: &[u8],
    caller: &Caller<'_>,
) -> Result<DecodedCommand<Input>, Problem> {
    let workspace = caller.workspace;
    let right = Right::Operate;
    match verb {
        ApplyAgent::VERB => one(body, caller, right, |it: ApplyAgent| Input::ApplyAgent {
            workspace: workspace.clone(),
            agent: it.agent,
            text: it.text,
        }),
        PutTool::VERB => one(body, caller, right, |it: PutTool| Input::Tool {
            workspace: workspace.clone(),
            name: it.tool.name.clone(),
            input: ToolInput::Put(Box::new(it.tool)),
        }),
        DeleteTool::VERB => one(body, caller, right, |it: DeleteTool| Input::Tool {
            workspace: workspace.clone(),
            name: it.name,
            input: ToolInput::Delete,
        }),
        other => Err(unknown(other)),
    }
}

fn contact(verb: &str, body: &[u8], caller: &Caller<'_>) -> Result<DecodedCommand<Input>, Problem> {
    let input = |contact, input| Input::Contact {
        workspace: caller.workspace.clone(),
        contact,
        input,
    };
    let right = Right::Ask;
    match verb {
        PutContact::VERB => one(body, caller, right, |it: PutContact| {
            input(it.contact, ContactInput::Put(it.fields))
        }),
        PatchContact::VERB => one(body, caller, right, |it: PatchContact| {
            input(it.contact, ContactInput::Patch(it.patch))
        }),
        AddActivity::VERB => one(body, caller, right, |it: AddActivity| {
            let AddActivity {
                contact,
                id,
                activity,
                patch,
            } = it;
            let said = ContactInput::Say {
                id: clean(&id),
                activity,
                patch,
            };
            input(contact, said)
        }),
        DeleteContact::VERB => one(body, caller, right, |it: DeleteContact| {
            input(it.contact, ContactInput::Delete)
        }),
        other => Err(unknown(other)),
    }
}

fn by_people(
    verb: &str,
    body: &[u8],
    caller: &Caller<'_>,
) -> Result<DecodedCommand<Input>, Problem> {
    let (id, input, key) = match verb {
        StartRun::VERB => {
            let it: Envelope<StartRun> = caller.read(body, Some(Right::Ask))?;
            let StartRun {
                run: id,
                agent,
                input,
                contact,
                labels,
            } = it.command;
            let by = it.actor;
            let input = RunInput::Start {
                agent,
                input,
                contact,
                labels,
                by,
            };
            (id, input, it.key)
        }
        PauseRun::VERB => {
            let it: Envelope<PauseRun> = caller.read(body, Some(Right::Operate))?;
            let (by, waiting) = (it.actor, it.command.waiting);
            (it.command.run, RunInput::Pause { by, waiting }, it.key)
        }
        ResumeRun::VERB => {
            let it: Envelope<ResumeRun> = caller.read(body, Some(Right::Operate))?;
            let (by, mode) = (it.actor, it.command.mode);
            (it.command.run, RunInput::Resume { by, mode }, it.key)
        }
        TakeOverRun::VERB => {
            let it: Envelope<TakeOverRun> = caller.read(body, Some(Right::Operate))?;
            (it.command.run, RunInput::TakeOver { by: it.actor }, it.key)
        }
        CancelRun::VERB => {
            let it: Envelope<CancelRun> = caller.read(body, Some(Right::Operate))?;
            let (by, reason) = (it.actor, it.command.reason);
            (it.command.run, RunInput::Cancel { by, reason }, it.key)
        }
        other => return Err(unknown(other)),
    };
    Ok(DecodedCommand::one(run(caller.workspace, id, input), key))
}

fn by_services(
    verb: &str,
    body: &[u8],
    caller: &Caller<'_>,
) -> Result<DecodedCommand<Input>, Problem> {
    match verb {
        TimersFired::VERB => {
            let it: Envelope<TimersFired> = caller.read(body, None)?;
            many(it.command.fired, |fired| timer(caller.workspace, fired))
        }
        HoldsClosed::VERB => {
            let it: Envelope<HoldsClosed> = caller.read(body, None)?;
            many(it.command.closed, |closed| hold(caller.workspace, closed))
        }
        HandoffsUpdated::VERB => {
            let it: Envelope<HandoffsUpdated> = caller.read(body, None)?;
            many(
                it.command.handled,
                |HandoffUpdate {
                     id, handoff_events, ..
                 }| {
                    let input = RunInput::HandoffUpdate {
                        hold: id,
                        handoff_events,
                    };
                    run(caller.workspace, id.run, input)
                },
            )
        }
        WatchRunEnds::VERB => {
            let it: Envelope<WatchRunEnds> = caller.read(body, None)?;
            many(it.command.of, |of| watch(caller.workspace, of))
        }
        other => Err(unknown(other)),
    }
}

fn watch(workspace: &Workspace, of: RunEndsOf) -> Input {
    let ends = |agent| Input::WatchRunEnds {
        workspace: workspace.clone(),
        agent,
    };
    match of {
        RunEndsOf::Run(id) => run(workspace, id, RunInput::Watch),
        RunEndsOf::Agent(agent) => ends(Some(agent)),
        RunEndsOf::All => ends(None),
        RunEndsOf::Request(id) => Input::WatchRequest(id),
    }
}

/// The timer of a hold or a node. Any other id is refused without affecting the other timers.
fn timer(workspace: &Workspace, fired: TimerFired) -> Input {
    let TimerFired { id, rev, .. } = fired;
    if let Ok(hold) = id.parse::<HoldId>() {
        return run(workspace, hold.run, RunInput::TimerFired { hold, rev });
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

fn hold(workspace: &Workspace, closed: HoldClosed) -> Input {
    let HoldClosed {
        id,
        outcome,
        data,
        by,
        at,
        handoff_events,
        by_rung,
        rev: _,
    } = closed;
    let closing = HoldClosure {
        outcome,
        data,
        by,
        at,
        handoff_events,
        by_rung,
    };
    let input = RunInput::HoldClosed { hold: id, closing };
    run(workspace, id.run, input)
}

fn by_workers(
    verb: &str,
    body: &[u8],
    caller: &Caller<'_>,
) -> Result<DecodedCommand<Input>, Problem> {
    match verb {
        StartSteps::VERB => {
            let it: Envelope<StartSteps> = caller.read(body, None)?;
            let StartSteps { node, steps } = it.command;
            many(steps, |it| {
                let input = RunInput::StartStep {
                    node: node.clone(),
                    step: it.step,
                    dispatch: it.dispatch,
                    delivery: it.delivery,
                    without_lease: it.without_lease,
                };
                run(caller.workspace, it.run, input)
            })
        }
        StepResults::VERB => results::decode(body, caller),
        Heartbeat::VERB => {
            let it: Envelope<Heartbeat> = caller.read(body, None)?;
            heartbeat(it)
        }
        Deregister::VERB => {
            let it: Envelope<Deregister> = caller.read(body, None)?;
            let input = Input::Node {
                node: it.command.node,
                input: NodeInput::Deregister,
            };
            Ok(DecodedCommand::one(input, it.key))
        }
        other => Err(unknown(other)),
    }
}

/// A code that fits its column, because workers are foreign programs.
fn clean(code: &str) -> String {
    let printable = |c: char| if c.is_control() { '_' } else { c };
    code.chars().take(CODE_CHARS_MAX).map(printable).collect()
}

fn heartbeat(envelope: Envelope<Heartbeat>) -> Result<DecodedCommand<Input>, Problem> {
    let Heartbeat {
        node,
        tools,
        working,
        queue_depth,
        lease_ms,
    } = envelope.command;
    if working.len().max(tools.len()) > WORKING_MAX {
        return Err(Problem::invalid_body(format!(
            "a beat names at most {WORKING_MAX} steps and as many tools"
        )));
    }
    let input = NodeInput::Heartbeat {
        tools,
        working,
        queue_depth,
        lease_ms,
    };
    Ok(DecodedCommand::one(
        Input::Node { node, input },
        envelope.key,
    ))
}

/// The runs that a dead letter concerns: each gets an incident.
pub(crate) fn incident(subject: &str, body: &[u8], reason: &str) -> Vec<Input> {
    if let Some(about) = desired(subject) {
        let (workspace, id) = about;
        let reason = reason.to_owned();
        return vec![run(&workspace, id, RunInput::Incident { reason })];
    }
    let Some(parts) = subject::parse(subject) else {
        return Vec::new();
    };
    let Ok(envelope) = serde_json::from_slice::<Value>(body) else {
        return Vec::new();
    };
    let command = envelope.get("command").unwrap_or(&Value::Null);
    let mut runs: Vec<RunId> = run_of(command).into_iter().collect();
    for list in ["steps", "results", "fired", "closed", "handled"] {
        let items = command.get(list).and_then(Value::as_array);
        runs.extend(items.into_iter().flatten().filter_map(run_of));
    }
    runs.sort();
    runs.dedup();
    runs.truncate(ITEMS_MAX);
    let reason = || reason.to_owned();
    runs.into_iter()
        .map(|id| {
            run(
                &parts.workspace,
                id,
                RunInput::Incident { reason: reason() },
            )
        })
        .collect()
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
        } if !matches!(given, RunInput::Start { .. }) => {
            let reason = reason.to_owned();
            Some(run(workspace, *id, RunInput::Incident { reason }))
        }
        _ => None,
    }
}

/// The run of a desired state that exceeds a message: `desired_state.<workspace>.<kind>.<id>`.
fn desired(subject: &str) -> Option<(Workspace, RunId)> {
    let mut tokens = subject.strip_prefix("desired_state.")?.splitn(3, '.');
    let workspace = tokens.next()?.parse().ok()?;
    let id = tokens.nth(1)?;
    let by_hold = || id.parse::<HoldId>().ok().map(|hold| hold.run);
    Some((workspace, id.parse().ok().or_else(by_hold)?))
}

fn run_of(item: &Value) -> Option<RunId> {
    let text = |field| item.get(field).and_then(Value::as_str);
    let by_hold = || text("id").and_then(|id| id.parse::<HoldId>().ok());
    text("run")
        .and_then(|run| run.parse().ok())
        .or_else(|| by_hold().map(|hold| hold.run))
}

fn run(workspace: &Workspace, run: RunId, input: RunInput) -> Input {
    Input::Run {
        workspace: workspace.clone(),
        run,
        input,
    }
}

fn one<C: Command>(
    body: &[u8],
    caller: &Caller<'_>,
    right: Right,
    input: impl FnOnce(C) -> Input,
) -> Result<DecodedCommand<Input>, Problem> {
    let Envelope { key, command, .. } = caller.read::<C>(body, Some(right))?;
    Ok(DecodedCommand::one(input(command), key))
}

fn many<T>(items: Vec<T>, input: impl Fn(T) -> Input) -> Result<DecodedCommand<Input>, Problem> {
    if items.is_empty() || items.len() > ITEMS_MAX {
        let detail = format!(
            "{} items in one message; 1 to {ITEMS_MAX} are taken",
            items.len()
        );
        return Err(Problem::invalid_body(detail));
    }
    Ok(DecodedCommand::many(items.into_iter().map(input).collect()))
}
