//! What a person does with a request short of deciding it.

use axum::extract::{FromRequest, FromRequestParts, Request};
use holdpoint_contracts::handoff::{ActOnRequest, RequestAction, RequestView, WithdrawHold};
use holdpoint_ids::HoldId;
use serde::Deserialize;

use crate::app::App;
use crate::auth::may::{Ask, Decide, May};
use crate::body::{Body, OptionalJson, parse_duration_ms, rewrite_pointers};
use crate::command_outcome::CommandOutcome;
use crate::params::NoParams;
use crate::path::PathId;
use crate::problem::{ApiError, ApiResult};
use crate::redaction::with_snooze_of;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VersionBody {
    #[serde(default)]
    pub(crate) version: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToBody {
    to: String,
    #[serde(default)]
    version: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SnoozeBody {
    #[serde(rename = "for")]
    time: String,
    #[serde(default)]
    version: Option<u64>,
}

/// A POST of one action on one request.
pub(super) struct ActionCall {
    caller: May<Decide>,
    id: HoldId,
    body: Body,
}

impl FromRequest<App> for ActionCall {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let (mut parts, body) = request.into_parts();
        let caller = May::from_request_parts(&mut parts, app).await?;
        let PathId(id) = PathId::<HoldId>::from_request_parts(&mut parts, app).await?;
        NoParams::from_request_parts(&mut parts, app).await?;
        let body = Body::from_request(Request::from_parts(parts, body), app).await?;
        Ok(Self { caller, id, body })
    }
}

impl ActionCall {
    async fn act(
        self,
        action: RequestAction,
        version: Option<u64>,
    ) -> ApiResult<CommandOutcome<RequestView>> {
        let command = ActOnRequest {
            id: self.id,
            action,
            version,
        };
        let outcome = self.caller.command(self.body.key, command).await;
        let outcome = outcome.map_err(|ApiError(problem)| {
            let problem = rewrite_pointers(problem, "/action/reassign/to", "/to");
            let problem = rewrite_pointers(problem, "/action/delegate/to", "/to");
            rewrite_pointers(problem, "/action/snooze/for_ms", "/for")
        })?;
        Ok(outcome.map(|view| with_snooze_of(&self.caller.claims, view)))
    }

    async fn act_without_details(
        self,
        action: RequestAction,
    ) -> ApiResult<CommandOutcome<RequestView>> {
        let VersionBody { version } = self.body.json_or_empty()?;
        self.act(action, version).await
    }
}

pub(super) async fn accept(call: ActionCall) -> ApiResult<CommandOutcome<RequestView>> {
    call.act_without_details(RequestAction::Accept).await
}

pub(super) async fn take_over(call: ActionCall) -> ApiResult<CommandOutcome<RequestView>> {
    call.act_without_details(RequestAction::TakeOver).await
}

pub(super) async fn acknowledge(call: ActionCall) -> ApiResult<CommandOutcome<RequestView>> {
    call.act_without_details(RequestAction::Acknowledge).await
}

pub(super) async fn reassign(call: ActionCall) -> ApiResult<CommandOutcome<RequestView>> {
    let ToBody { to, version } = call.body.json()?;
    call.act(RequestAction::Reassign { to }, version).await
}

pub(super) async fn delegate(call: ActionCall) -> ApiResult<CommandOutcome<RequestView>> {
    let ToBody { to, version } = call.body.json()?;
    call.act(RequestAction::Delegate { to }, version).await
}

/// `{for: "2h"}`.
pub(super) async fn snooze(call: ActionCall) -> ApiResult<CommandOutcome<RequestView>> {
    let SnoozeBody { time, version } = call.body.json()?;
    let for_ms = parse_duration_ms("/for", &time)?;
    call.act(RequestAction::Snooze { for_ms }, version).await
}

/// Withdraws a standalone hold, as `DELETE /holds/{id}` does.
pub(super) async fn withdraw(
    caller: May<Ask>,
    PathId(id): PathId<HoldId>,
    _: NoParams,
    body: OptionalJson<VersionBody>,
) -> ApiResult<CommandOutcome<RequestView>> {
    let version = body.value.version;
    caller.command(body.key, WithdrawHold { id, version }).await
}
