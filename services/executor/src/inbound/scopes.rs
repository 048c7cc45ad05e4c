//! Commands for many runs at once.

use holdpoint_contracts::executor::{DeleteAgent, PauseScope, ResumeScope};
use holdpoint_contracts::message::{Command, Envelope};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::subject::Parts;
use holdpoint_ids::{AgentName, Workspace};
use holdpoint_kernel::Request;

use super::read;
use crate::domain::{Input, ScopeInput};

/// Reads one of `pause_scope`, `resume_scope` and `delete_agent`; none: it is another command.
pub(super) fn decode(parts: &Parts, body: &[u8]) -> Option<Result<Request<Input>, Problem>> {
    let workspace = &parts.workspace;
    match parts.verb.as_str() {
        PauseScope::VERB => Some(operate(workspace, body, |by, it: PauseScope| {
            let input = ScopeInput::Pause {
                by,
                waiting: it.waiting,
                new: it.new,
            };
            (it.agent, input)
        })),
        ResumeScope::VERB => Some(operate(workspace, body, |by, it: ResumeScope| {
            (it.agent, ScopeInput::Resume { by, mode: it.mode })
        })),
        DeleteAgent::VERB => Some(operate(workspace, body, |by, it: DeleteAgent| {
            (Some(it.agent), ScopeInput::Delete { by })
        })),
        _ => None,
    }
}

/// All three need the right to operate.
fn operate<C: Command>(
    workspace: &Workspace,
    body: &[u8],
    input: impl FnOnce(holdpoint_contracts::message::Actor, C) -> (Option<AgentName>, ScopeInput),
) -> Result<Request<Input>, Problem> {
    let Envelope {
        actor,
        key,
        command,
        ..
    } = read::<C>(body)?;
    // AUTHORIZE: `Right::Operate`, as for the other commands of people, once that is there.
    let (agent, input) = input(actor, command);
    let input = Input::Scope {
        workspace: workspace.clone(),
        agent,
        input,
    };
    Ok(Request::one(input, key))
}
