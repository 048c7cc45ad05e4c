//! `start_operation` and `cancel_operation`.

use holdpoint_auth::Right;
use holdpoint_contracts::operation::{CancelOperation, StartOperation};
use holdpoint_contracts::problem::Problem;
use holdpoint_kernel::DecodedCommand;

use super::caller::Caller;
use crate::domain::{Input, OperationInput};

type Decoded = Result<DecodedCommand<Input>, Problem>;

/// Any action on many runs needs the right of an operator, also if a program may do it with one run.
pub(super) fn decode_start(body: &[u8], caller: &Caller<'_>) -> Decoded {
    let workspace = caller.workspace.clone();
    caller.read_one(body, Right::Operate, |it: StartOperation, by| {
        Input::Operation {
            workspace,
            id: it.id,
            input: OperationInput::Start {
                by,
                action: it.action,
                filter: it.filter,
                matched: it.matched,
            },
        }
    })
}

pub(super) fn decode_cancel(body: &[u8], caller: &Caller<'_>) -> Decoded {
    let workspace = caller.workspace.clone();
    caller.read_one(body, Right::Operate, |it: CancelOperation, by| {
        Input::Operation {
            workspace,
            id: it.id,
            input: OperationInput::Cancel { by },
        }
    })
}
