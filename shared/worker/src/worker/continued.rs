//! Continues a step of an earlier suspension with what the last call saved (S1-R8).
//!
//! A step whose saved values cannot be read begins without them: the operator has chosen that it runs again.

use std::time::Duration;

use holdpoint_bus::Bus;
use holdpoint_contracts::message::Envelope;
use holdpoint_contracts::steps::StepDispatch;
use holdpoint_contracts::suspension::{ContinueStep, ContinuedStep, ValueReference};
use holdpoint_ids::NodeName;
use serde::Deserialize as _;
use serde_json::Value;

use super::blobs;
use crate::suspension::CallSuspension;

/// Longest wait for the reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);

/// Tries of the request.
const TRIES: u32 = 5;

/// Gives the call what an earlier call of its step saved, and reports what this node has found of its sandbox. The
/// step must have been granted.
pub(super) async fn continue_call(
    bus: &Bus,
    node: &NodeName,
    step_dispatch: &StepDispatch,
    suspension: &CallSuspension,
) {
    let sandbox = suspension.sandbox().cloned();
    let manifest = tokio::task::spawn_blocking(move || sandbox?.manifest());
    let command = ContinueStep {
        run: step_dispatch.run,
        token: step_dispatch.token.clone().unwrap_or_default(),
        node: node.clone(),
        sandbox: manifest.await.ok().flatten(),
    };
    let Some(mut continued) = ask(bus, step_dispatch, command).await else {
        return;
    };
    for value in [&mut continued.write_buffer, &mut continued.checkpoint] {
        resolve(bus, step_dispatch, value).await;
    }
    suspension.continue_with(continued);
}

async fn ask(
    bus: &Bus,
    step_dispatch: &StepDispatch,
    command: ContinueStep,
) -> Option<ContinuedStep> {
    let envelope = Envelope::of_service("worker", command);
    for _ in 0..TRIES {
        let asked = bus.ask(&step_dispatch.workspace, &envelope);
        match tokio::time::timeout(REPLY_TIMEOUT, asked).await {
            Ok(Ok(continued)) => return Some(continued),
            Ok(Err(problem)) if problem.status < 500 => {
                tracing::warn!(step = %step_dispatch.step, %problem, "saved values refused; the tool begins without them");
                return None;
            }
            Ok(Err(problem)) => {
                tracing::debug!(%problem, "saved values not read; asking again");
                tokio::time::sleep(REPLY_TIMEOUT / 2).await;
            }
            Err(_) => tracing::debug!("no reply about saved values in time; asking again"),
        }
    }
    tracing::warn!(step = %step_dispatch.step, "saved values cannot be read; the tool begins without them");
    None
}

/// Replaces a reference by its value, or by null.
async fn resolve(bus: &Bus, step_dispatch: &StepDispatch, value: &mut Value) {
    let is_small = value.as_object().is_some_and(|fields| fields.len() <= 4);
    let Some(reference) = is_small
        .then(|| ValueReference::deserialize(&*value).ok())
        .flatten()
    else {
        return;
    };
    let token = step_dispatch.token.as_deref().unwrap_or_default();
    let found = blobs::download(bus, &step_dispatch.workspace, token, &reference);
    *value = found.await.unwrap_or_default();
}
