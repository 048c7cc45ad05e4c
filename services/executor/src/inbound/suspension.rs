//! `suspend_run`, and what workers and tools send about suspended steps (S1).

use holdpoint_auth::{Right, StepKey};
use holdpoint_contracts::message::Envelope;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::suspension::{ContinueStep, PutBlob, SuspendRun, SuspendSteps};
use holdpoint_kernel::DecodedCommand;

use super::caller::Caller;
use crate::domain::{BlobUpload, ContinuedCall, Input, RunInput, SuspensionReport};

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

/// The token decides the step and the dispatch.
pub(super) fn decode_continued(body: &[u8], caller: &Caller<'_>, key: &StepKey) -> Decoded {
    let it: Envelope<ContinueStep> = caller.read(body, None)?;
    let ContinueStep {
        run,
        token,
        node,
        sandbox,
    } = it.command;
    let claims = caller.step_claims(key, &token, run)?;
    let call = ContinuedCall {
        node,
        step: claims.step,
        dispatch: claims.dispatch,
        sandbox,
    };
    let input = caller.run_input(run, RunInput::ContinueStep(Box::new(call)));
    Ok(DecodedCommand::one(input, it.key))
}

/// The token decides the step and the dispatch.
pub(super) fn decode_blob(body: &[u8], caller: &Caller<'_>, key: &StepKey) -> Decoded {
    let it: Envelope<PutBlob> = caller.read(body, None)?;
    let PutBlob {
        run,
        token,
        sha256,
        size,
        offset,
        content,
    } = it.command;
    let claims = caller.step_claims(key, &token, run)?;
    let upload = BlobUpload {
        step: claims.step,
        dispatch: claims.dispatch,
        sha256,
        size,
        offset,
        content,
    };
    let input = caller.run_input(run, RunInput::PutBlob(Box::new(upload)));
    Ok(DecodedCommand::one(input, it.key))
}
