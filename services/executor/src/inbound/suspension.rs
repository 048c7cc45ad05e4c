//! `suspend_run`, and `suspend_steps` of workers (S1).

use holdpoint_auth::Right;
use holdpoint_contracts::message::Envelope;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::suspension::{SuspendRun, SuspendSteps};
use holdpoint_kernel::DecodedCommand;

use super::caller::Caller;
use crate::domain::{Input, RunInput, SuspensionReport};

type Decoded = Result<DecodedCommand<Input>, Problem>;

pub(super) fn decode_run(body: &[u8], caller: &Caller<'_>) -> Decoded {
    caller.read_one(body, Right::Operate, |it: SuspendRun, by| {
        let reason = it.reason;
        caller.run_input(it.run, RunInput::Suspend { by, reason })
    })
}

pub(super) fn decode_steps(body: &[u8], caller: &Caller<'_>) -> Decoded {
    let it: Envelope<SuspendSteps> = caller.read(body, None)?;
    let node = it.command.node;
    Caller::inputs(it.command.steps, |it| {
        let report = SuspensionReport {
            node: node.clone(),
            step: it.step,
            dispatch: it.dispatch,
            shutdown: it.shutdown,
            stopped: it.stopped,
            supplement: it.supplement,
        };
        caller.run_input(it.run, RunInput::SuspendStep(Box::new(report)))
    })
}
