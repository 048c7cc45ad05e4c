//! Commands for all runs of an agent or a workspace.

use holdpoint_auth::Right;
use holdpoint_contracts::executor::{DeleteAgent, PauseScope, ResumeScope};
use holdpoint_contracts::message::{Actor, Command, Envelope};
use holdpoint_contracts::problem::Problem;
use holdpoint_ids::AgentName;
use holdpoint_kernel::DecodedCommand;

use super::caller::Caller;
use crate::domain::{Input, ScopeInput};

/// Reads `pause_scope`, `resume_scope` or `delete_agent`.
pub(super) fn decode(
    verb: &str,
    body: &[u8],
    caller: &Caller<'_>,
) -> Result<DecodedCommand<Input>, Problem> {
    match verb {
        PauseScope::VERB => command(caller, body, |by, it: PauseScope| {
            let input = ScopeInput::Pause {
                by,
                waiting: it.waiting,
                new: it.new,
            };
            (it.agent, input)
        }),
        ResumeScope::VERB => command(caller, body, |by, it: ResumeScope| {
            (it.agent, ScopeInput::Resume { by, mode: it.mode })
        }),
        DeleteAgent::VERB => command(caller, body, |by, it: DeleteAgent| {
            (Some(it.agent), ScopeInput::Delete { by })
        }),
        other => Err(super::unknown(other)),
    }
}

/// An operator may pause an agent. The whole workspace needs an administrator.
fn command<C: Command>(
    caller: &Caller<'_>,
    body: &[u8],
    input: impl FnOnce(Actor, C) -> (Option<AgentName>, ScopeInput),
) -> Result<DecodedCommand<Input>, Problem> {
    let it: Envelope<C> = caller.read(body, Some(Right::Operate))?;
    let (agent, input) = input(it.actor, it.command);
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
