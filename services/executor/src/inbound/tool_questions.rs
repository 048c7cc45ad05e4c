//! Authorizes questions of a tool: by its step token, or by the right of a program that asks for it.

use holdpoint_auth::{Right, StepKey};
use holdpoint_contracts::asking::RequestInput;
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::problem::Problem;
use holdpoint_kernel::DecodedCommand;

use super::caller::Caller;
use crate::domain::{Input, RunInput};

/// A step token determines the step and the dispatch, whatever the command contains. Without a token the
/// sender needs the right to ask.
pub(super) fn decode(
    body: &[u8],
    caller: &Caller<'_>,
    key: &StepKey,
) -> Result<DecodedCommand<Input>, Problem> {
    let it = caller.read_as(body, |it: &RequestInput| match it.token {
        Some(_) => None,
        None => Some(Right::Ask),
    })?;
    let mut by = it.actor;
    let RequestInput {
        run,
        mut step,
        mut dispatch,
        token,
        question,
    } = it.command;
    if let Some(token) = token {
        let claims = caller.step_claims(key, &token, run)?;
        by = Actor::service("step");
        step = Some(claims.step);
        dispatch = Some(claims.dispatch);
    }
    let input = RunInput::AskPeople {
        by,
        step,
        dispatch,
        question: Box::new(question),
    };
    Ok(DecodedCommand::one(caller.run_input(run, input), it.key))
}
