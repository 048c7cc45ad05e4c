//! What a person does with a request short of deciding it.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use holdpoint_auth::Right;
use holdpoint_contracts::handoff::{ActOnRequest, RequestAction, WithdrawHold};
use holdpoint_contracts::{Problem, duration};
use holdpoint_ids::HoldId;
use serde::Deserialize;

use crate::app::App;
use crate::body::{Body, in_body, invalid_field};
use crate::caller::{Caller, PathId};
use crate::params::Params;
use crate::problem::ApiError;
use crate::sight::put_away_by;

/// Nothing but what was seen.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlainBody {
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

/// One request, one caller, one body.
pub(super) struct Asked {
    app: App,
    caller: Caller,
    id: HoldId,
    body: Body,
}

impl axum::extract::FromRequest<App> for Asked {
    type Rejection = ApiError;

    async fn from_request(request: axum::extract::Request, app: &App) -> Result<Self, ApiError> {
        use axum::extract::FromRequestParts;
        let (mut parts, body) = request.into_parts();
        let caller = Caller::from_request_parts(&mut parts, app).await?;
        let PathId(id) = PathId::<HoldId>::from_request_parts(&mut parts, app).await?;
        let params = Params::from_request_parts(&mut parts, app).await?;
        params.only(&[])?;
        let request = axum::extract::Request::from_parts(parts, body);
        let body = Body::from_request(request, app).await?;
        caller.may(Right::Decide)?;
        Ok(Self {
            app: app.clone(),
            caller,
            id,
            body,
        })
    }
}

impl Asked {
    async fn act(self, action: RequestAction, version: Option<u64>) -> Result<Response, ApiError> {
        let command = ActOnRequest {
            id: self.id,
            action,
            version,
        };
        let answered = self
            .app
            .command(&self.caller, self.body.key, command)
            .await
            .map_err(|problem| {
                let problem = in_body(problem, "/action/reassign/to", "/to");
                let problem = in_body(problem, "/action/delegate/to", "/to");
                in_body(problem, "/action/snooze/for_ms", "/for")
            })?;
        let answered = answered.map(|view| put_away_by(&self.caller.claims, view));
        Ok(answered.with_status(StatusCode::OK))
    }

    async fn plain(self, action: RequestAction) -> Result<Response, ApiError> {
        let PlainBody { version } = self.body.json_or_empty()?;
        self.act(action, version).await
    }
}

pub(super) async fn accept(asked: Asked) -> Result<Response, ApiError> {
    asked.plain(RequestAction::Accept).await
}

pub(super) async fn take_over(asked: Asked) -> Result<Response, ApiError> {
    asked.plain(RequestAction::TakeOver).await
}

pub(super) async fn acknowledge(asked: Asked) -> Result<Response, ApiError> {
    asked.plain(RequestAction::Acknowledge).await
}

pub(super) async fn reassign(asked: Asked) -> Result<Response, ApiError> {
    let ToBody { to, version } = asked.body.json()?;
    asked.act(RequestAction::Reassign { to }, version).await
}

pub(super) async fn delegate(asked: Asked) -> Result<Response, ApiError> {
    let ToBody { to, version } = asked.body.json()?;
    asked.act(RequestAction::Delegate { to }, version).await
}

/// `{for: "2h"}`.
pub(super) async fn snooze(asked: Asked) -> Result<Response, ApiError> {
    let SnoozeBody { time, version } = asked.body.json()?;
    let for_ms = milliseconds("/for", &time)?;
    asked.act(RequestAction::Snooze { for_ms }, version).await
}

/// A duration's text in milliseconds.
pub(crate) fn milliseconds(pointer: &str, text: &str) -> Result<u64, Problem> {
    let time = duration::parse(text).map_err(|error| invalid_field(pointer, &error.to_string()))?;
    u64::try_from(time.as_millis()).map_err(|error| invalid_field(pointer, &error.to_string()))
}

/// Takes back a hold that stands alone; the same as `DELETE /holds/{id}`.
pub(super) async fn withdraw(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId<HoldId>,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    params.only(&[])?;
    caller.may(Right::Ask)?;
    let PlainBody { version } = body.json_or_empty()?;
    let command = WithdrawHold { id, version };
    let answered = app.command(&caller, body.key, command).await?;
    Ok(answered.with_status(StatusCode::OK))
}
