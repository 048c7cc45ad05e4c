//! `/runs`: what runs, and stopping, resuming and ending it.

mod events;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use holdpoint_auth::Right;
use holdpoint_contracts::executor::{
    CancelRun, ConfirmRun, GetRun, ListRuns, PauseRun, ResumeRun, TakeOverRun,
};
use holdpoint_contracts::run::{Page, ResumeMode, RunView};
use holdpoint_ids::RunId;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::app::App;
use crate::body::Body;
use crate::caller::{Caller, Named, Reader};
use crate::params::{Params, invalid};
use crate::problem::Refused;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/runs", get(list))
        .route("/runs/{run}", get(show))
        .route("/runs/{run}/events", get(events::events))
        .route("/runs/{run}/pause", post(pause))
        .route("/runs/{run}/resume", post(resume))
        .route("/runs/{run}/cancel", post(cancel))
        .route("/runs/{run}/confirm", post(confirm))
        .route("/runs/{run}/take-over", post(take_over))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PauseBody {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResumeBody {
    #[serde(default)]
    mode: Option<ResumeMode>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelBody {
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfirmBody {
    answers: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TakeOverBody {}

async fn list(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<Json<Page<RunView>>, Refused> {
    caller.may(Right::Look)?;
    let known = [
        "status",
        "agent",
        "label",
        "created_after",
        "limit",
        "cursor",
    ];
    let params = params.only(&known)?;
    let label: Option<String> = params.read_as("label")?;
    if label.as_ref().is_some_and(|label| !label.contains('=')) {
        return Err(Refused(invalid("`label` is `name=value`")));
    }
    let query = ListRuns {
        limit: params.limit()?,
        cursor: params.read_as("cursor")?,
        status: params.read_as("status")?,
        agent: params.read_as("agent")?,
        label,
        created_after: params.read_as::<DateTime<Utc>>("created_after")?,
    };
    Ok(Json(app.bus.query(&caller.workspace, &query).await?))
}

async fn show(
    State(app): State<App>,
    reader: Reader,
    Named(run): Named<RunId>,
) -> Result<Json<RunView>, Refused> {
    reader.sees(run)?;
    let view = app.bus.query(&reader.workspace, &GetRun { run }).await?;
    reader.still_speaks(&view)?;
    Ok(Json(view))
}

/// Freezes the run (S0-AC4).
async fn pause(
    State(app): State<App>,
    caller: Caller,
    Named(run): Named<RunId>,
    params: Params,
    body: Body,
) -> Result<Response, Refused> {
    caller.may(Right::Operate)?;
    params.only(&[])?;
    let PauseBody {} = body.json_or_empty()?;
    let answered = app.command(&caller, body.key, PauseRun { run }).await?;
    Ok(answered.with_status(StatusCode::OK))
}

/// Lets it go on; the mode stands in the body or in the query, the body's counts (S0-AC4).
async fn resume(
    State(app): State<App>,
    caller: Caller,
    Named(run): Named<RunId>,
    params: Params,
    body: Body,
) -> Result<Response, Refused> {
    caller.may(Right::Operate)?;
    let params = params.only(&["mode"])?;
    let ResumeBody { mode } = body.json_or_empty()?;
    let mode = match mode {
        Some(mode) => mode,
        None => params.read_word("mode")?.unwrap_or_default(),
    };
    let answered = app
        .command(&caller, body.key, ResumeRun { run, mode })
        .await?;
    Ok(answered.with_status(StatusCode::OK))
}

/// Ends it (S2-R13).
async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Named(run): Named<RunId>,
    params: Params,
    body: Body,
) -> Result<Response, Refused> {
    caller.may(Right::Operate)?;
    params.only(&[])?;
    let CancelBody { reason } = body.json_or_empty()?;
    let answered = app
        .command(&caller, body.key, CancelRun { run, reason })
        .await?;
    Ok(answered.with_status(StatusCode::OK))
}

/// Says what it lacks before its first step (S2-R12).
async fn confirm(
    State(app): State<App>,
    caller: Caller,
    Named(run): Named<RunId>,
    params: Params,
    body: Body,
) -> Result<Response, Refused> {
    caller.may(Right::Decide)?;
    params.only(&[])?;
    let ConfirmBody { answers } = body.json()?;
    let answered = app
        .command(&caller, body.key, ConfirmRun { run, answers })
        .await?;
    Ok(answered.with_status(StatusCode::OK))
}

/// The caller becomes its owner; the agent is fenced off until they hand it back.
async fn take_over(
    State(app): State<App>,
    caller: Caller,
    Named(run): Named<RunId>,
    params: Params,
    body: Body,
) -> Result<Response, Refused> {
    caller.may(Right::Operate)?;
    params.only(&[])?;
    let TakeOverBody {} = body.json_or_empty()?;
    let answered = app.command(&caller, body.key, TakeOverRun { run }).await?;
    Ok(answered.with_status(StatusCode::OK))
}
