//! Messages of the executor to itself about child runs.

use holdpoint_contracts::executor::{ChildRunsEnded, SetChildRuns};
use holdpoint_contracts::message::{Command as _, Envelope};
use holdpoint_contracts::problem::Problem;
use holdpoint_kernel::DecodedCommand;

use super::caller::Caller;
use crate::domain::{Input, RunInput};

pub(super) fn decode(
    verb: &str,
    body: &[u8],
    caller: &Caller<'_>,
) -> Result<DecodedCommand<Input>, Problem> {
    if verb == SetChildRuns::VERB {
        let it: Envelope<SetChildRuns> = caller.read(body, None)?;
        return Caller::inputs(it.command.children, |child| {
            caller.run_input(child.run, RunInput::SetChildRun(Box::new(child)))
        });
    }
    let it: Envelope<ChildRunsEnded> = caller.read(body, None)?;
    Caller::inputs(it.command.ends, |end| {
        caller.run_input(end.id.run, RunInput::ChildRunEnded(Box::new(end)))
    })
}
