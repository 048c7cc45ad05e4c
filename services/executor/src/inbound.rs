//! Commands to inputs: translation only.

mod scopes;

use holdpoint_contracts::executor::{
    ApplyAgent, CancelRun, DeleteContact, PatchContact, PauseRun, PutContact, ResumeRun, StartRun,
    TimersFired,
};
use holdpoint_contracts::message::{Command, Envelope};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::steps::{StartSteps, StepResults};
use holdpoint_contracts::subject::Parts;
use holdpoint_ids::{HoldId, IdError, RunId, Workspace};
use holdpoint_kernel::Request;

use crate::domain::contact::ContactInput;
use crate::domain::{Input, RunInput};

/// Most steps, results or alarms that one message may bring.
const ITEMS_MAX: usize = 1_000;

/// Reads one command.
pub(crate) fn decode(parts: &Parts, body: &[u8]) -> Result<Request<Input>, Problem> {
    let workspace = &parts.workspace;
    match parts.verb.as_str() {
        ApplyAgent::VERB => one(body, |it: ApplyAgent| Input::ApplyAgent {
            workspace: workspace.clone(),
            agent: it.agent,
            text: it.text,
        }),
        PutContact::VERB => one(body, |it: PutContact| Input::Contact {
            workspace: workspace.clone(),
            contact: it.contact,
            input: ContactInput::Put(it.fields),
        }),
        PatchContact::VERB => one(body, |it: PatchContact| Input::Contact {
            workspace: workspace.clone(),
            contact: it.contact,
            input: ContactInput::Patch(it.patch),
        }),
        DeleteContact::VERB => one(body, |it: DeleteContact| Input::Contact {
            workspace: workspace.clone(),
            contact: it.contact,
            input: ContactInput::Delete,
        }),
        StartRun::VERB | PauseRun::VERB | ResumeRun::VERB | CancelRun::VERB => {
            decode_run(parts, body)
        }
        TimersFired::VERB => {
            let fired = read::<TimersFired>(body)?.command.fired;
            let fired = fired
                .into_iter()
                .map(|it| Ok((it.id.parse::<HoldId>()?, it.rev)))
                .collect::<Result<Vec<_>, IdError>>()
                .map_err(|error| Problem::invalid_body(error.to_string()))?;
            many(fired, |(hold, rev)| {
                run(workspace, hold.run, RunInput::TimerFired { hold, rev })
            })
        }
        StartSteps::VERB => {
            let StartSteps { node, steps } = read::<StartSteps>(body)?.command;
            many(steps, |it| {
                let (node, delivery) = (node.clone(), it.delivery);
                let input = RunInput::StartStep {
                    node,
                    step: it.step,
                    dispatch: it.dispatch,
                    delivery,
                };
                run(workspace, it.run, input)
            })
        }
        StepResults::VERB => {
            let StepResults { node, results } = read::<StepResults>(body)?.command;
            many(results, |it| {
                let input = RunInput::StepResult {
                    node: node.clone(),
                    step: it.step,
                    dispatch: it.dispatch,
                    result: it.result,
                    error_code: it.error_code,
                };
                run(workspace, it.run, input)
            })
        }
        other => scopes::decode(parts, body).unwrap_or_else(|| {
            Err(Problem::not_found(format!(
                "the executor has no command `{other}`"
            )))
        }),
    }
}

fn decode_run(parts: &Parts, body: &[u8]) -> Result<Request<Input>, Problem> {
    let workspace = &parts.workspace;
    match parts.verb.as_str() {
        StartRun::VERB => {
            let Envelope {
                actor,
                key,
                command,
                ..
            } = read::<StartRun>(body)?;
            let StartRun {
                run: id,
                agent,
                input,
                contact,
                labels,
            } = command;
            let input = RunInput::Start {
                agent,
                input,
                contact,
                labels,
                by: actor,
            };
            Ok(Request::one(run(workspace, id, input), key))
        }
        PauseRun::VERB => {
            let Envelope {
                actor,
                key,
                command,
                ..
            } = read::<PauseRun>(body)?;
            let input = RunInput::Pause { by: actor };
            Ok(Request::one(run(workspace, command.run, input), key))
        }
        ResumeRun::VERB => {
            let Envelope {
                actor,
                key,
                command,
                ..
            } = read::<ResumeRun>(body)?;
            let input = RunInput::Resume {
                by: actor,
                mode: command.mode,
            };
            Ok(Request::one(run(workspace, command.run, input), key))
        }
        _ => {
            let Envelope {
                actor,
                key,
                command,
                ..
            } = read::<CancelRun>(body)?;
            let input = RunInput::Cancel {
                by: actor,
                reason: command.reason,
            };
            Ok(Request::one(run(workspace, command.run, input), key))
        }
    }
}

fn run(workspace: &Workspace, run: RunId, input: RunInput) -> Input {
    Input::Run {
        workspace: workspace.clone(),
        run,
        input,
    }
}

fn one<C: Command>(body: &[u8], input: impl FnOnce(C) -> Input) -> Result<Request<Input>, Problem> {
    let Envelope { key, command, .. } = read::<C>(body)?;
    Ok(Request::one(input(command), key))
}

fn many<T>(items: Vec<T>, input: impl Fn(T) -> Input) -> Result<Request<Input>, Problem> {
    if items.is_empty() || items.len() > ITEMS_MAX {
        let detail = format!(
            "{} items in one message; 1 to {ITEMS_MAX} are taken",
            items.len()
        );
        return Err(Problem::invalid_body(detail));
    }
    Ok(Request::many(items.into_iter().map(input).collect()))
}

fn read<C: Command>(body: &[u8]) -> Result<Envelope<C>, Problem> {
    serde_json::from_slice(body)
        .map_err(|error| Problem::invalid_body(format!("`{}`: {error}", C::VERB)))
}
