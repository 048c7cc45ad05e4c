//! What a person does with a request short of deciding it.

use axum::response::Response;
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{
    ActOnRequest, AskAgain, RequestAction, RequestView, WithdrawHold,
};
use holdpoint_ids::HoldId;
use serde::Deserialize;

use super::super::holds::{OneOrMany, VersionBody, respond_opened};
use crate::auth::may::{Ask, Decide};
use crate::body::{parse_duration_ms, rewrite_prefixes};
use crate::call::{Call, JsonBody, OptionalJson, ReadBody};
use crate::command_outcome::CommandResult;
use crate::problem::{ApiError, ApiResult};
use crate::redaction::with_snooze_of;

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

/// An action that needs nothing but its name.
pub(super) async fn act_on(call: ActionCall, action: RequestAction) -> CommandResult<RequestView> {
    act(call, |body| Ok((action, body.version))).await
}

/// An action that adds or replaces a recipient.
pub(super) async fn hand_on(
    call: ActionCall<JsonBody<ToBody>>,
    action: fn(String) -> RequestAction,
) -> CommandResult<RequestView> {
    act(call, |ToBody { to, version }| Ok((action(to), version))).await
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

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AskAgainBody {
    #[serde(default)]
    to: Option<OneOrMany>,
    #[serde(default)]
    timeout: Option<String>,
}

/// A new hold with the question of one that ended without an answer.
pub(super) async fn ask_again(
    call: Call<Ask, HoldId, OptionalJson<AskAgainBody>>,
) -> ApiResult<Response> {
    let (again, AskAgainBody { to, timeout }) = (call.id, call.body);
    let timeout_ms = timeout.map(|text| parse_duration_ms("/timeout", &text));
    let command = AskAgain {
        id: again.asked_again(),
        again,
        to: to.map(|to| OneOrMany::all(Some(to))),
        timeout_ms: timeout_ms.transpose()?,
    };
    respond_opened(call.caller.command(call.key, command).await)
}
