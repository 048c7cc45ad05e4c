//! What a person does with a request short of deciding it.

use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{ActOnRequest, RequestAction, RequestView, WithdrawHold};
use holdpoint_ids::HoldId;
use serde::Deserialize;

use crate::auth::may::{Ask, Decide};
use crate::body::{parse_duration_ms, rewrite_prefixes};
use crate::call::{Call, JsonBody, OptionalJson, ReadBody};
use crate::command_outcome::CommandResult;
use crate::problem::ApiError;
use crate::redaction::with_snooze_of;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VersionBody {
    #[serde(default)]
    pub(crate) version: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToBody {
    to: String,
    #[serde(default)]
    version: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SnoozeBody {
    #[serde(rename = "for")]
    time: String,
    #[serde(default)]
    version: Option<u64>,
}

/// A POST of one action on one request.
type ActionCall<B = OptionalJson<VersionBody>> = Call<Decide, HoldId, B>;

/// Sends the action and the version in the body of a call.
async fn act<B: ReadBody>(
    call: ActionCall<B>,
    read: impl FnOnce(B::Value) -> Result<(RequestAction, Option<u64>), Problem>,
) -> CommandResult<RequestView> {
    let (action, version) = read(call.body)?;
    let id = call.id;
    let command = ActOnRequest {
        id,
        action,
        version,
    };
    let outcome = call.caller.command(call.key, command).await;
    let outcome = outcome.map_err(|ApiError(problem)| rewrite_prefixes(problem, &BODY_POINTERS))?;
    Ok(outcome.map(|view| with_snooze_of(&call.caller.claims, view)))
}

/// Members of the command, and where the body has them.
const BODY_POINTERS: [(&str, &str); 3] = [
    ("/action/reassign/to", "/to"),
    ("/action/delegate/to", "/to"),
    ("/action/snooze/for_ms", "/for"),
];

pub(super) async fn accept(call: ActionCall) -> CommandResult<RequestView> {
    act(call, |body| Ok((RequestAction::Accept, body.version))).await
}

pub(super) async fn take_over(call: ActionCall) -> CommandResult<RequestView> {
    act(call, |body| Ok((RequestAction::TakeOver, body.version))).await
}

pub(super) async fn acknowledge(call: ActionCall) -> CommandResult<RequestView> {
    act(call, |body| Ok((RequestAction::Acknowledge, body.version))).await
}

pub(super) async fn reassign(call: ActionCall<JsonBody<ToBody>>) -> CommandResult<RequestView> {
    let read = |ToBody { to, version }| Ok((RequestAction::Reassign { to }, version));
    act(call, read).await
}

pub(super) async fn delegate(call: ActionCall<JsonBody<ToBody>>) -> CommandResult<RequestView> {
    let read = |ToBody { to, version }| Ok((RequestAction::Delegate { to }, version));
    act(call, read).await
}

pub(super) async fn snooze(call: ActionCall<JsonBody<SnoozeBody>>) -> CommandResult<RequestView> {
    let read = |SnoozeBody { time, version }| {
        let for_ms = parse_duration_ms("/for", &time)?;
        Ok((RequestAction::Snooze { for_ms }, version))
    };
    act(call, read).await
}

/// Withdraws a standalone hold, as `DELETE /holds/{id}` does.
pub(super) async fn withdraw(
    call: Call<Ask, HoldId, OptionalJson<VersionBody>>,
) -> CommandResult<RequestView> {
    let (id, version) = (call.id, call.body.version);
    let command = WithdrawHold { id, version };
    call.caller.command(call.key, command).await
}
