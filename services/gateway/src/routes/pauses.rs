//! Pausing and resuming an agent, or the whole workspace (S0-AC4, S0-T6).

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::{PauseNew, PauseScope, PauseWaiting, ResumeScope};
use holdpoint_contracts::run::ResumeMode;
use holdpoint_ids::AgentName;
use serde::Deserialize;

use crate::app::App;
use crate::body::Body;
use crate::caller::{Caller, PathId};
use crate::params::Params;
use crate::problem::ApiError;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/agents/{agent}/pause", post(pause_agent))
        .route("/agents/{agent}/resume", post(resume_agent))
        .route("/pause", post(pause_all))
        .route("/resume", post(resume_all))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PauseBody {
    #[serde(default)]
    waiting: Option<PauseWaiting>,
    #[serde(default)]
    new: Option<PauseNew>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResumeBody {
    #[serde(default)]
    mode: Option<ResumeMode>,
}

async fn pause_agent(
    State(app): State<App>,
    caller: Caller,
    PathId(agent): PathId<AgentName>,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    caller.may(Right::Operate)?;
    let pause = read_pause(Some(agent), params, &body)?;
    let answered = app.command(&caller, body.key, pause).await?;
    Ok(answered.with_status(StatusCode::OK))
}

async fn pause_all(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    caller.may(Right::Administer)?;
    let pause = read_pause(None, params, &body)?;
    let answered = app.command(&caller, body.key, pause).await?;
    Ok(answered.with_status(StatusCode::OK))
}

async fn resume_agent(
    State(app): State<App>,
    caller: Caller,
    PathId(agent): PathId<AgentName>,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    caller.may(Right::Operate)?;
    let resume = read_resume(Some(agent), params, &body)?;
    let answered = app.command(&caller, body.key, resume).await?;
    Ok(answered.with_status(StatusCode::OK))
}

async fn resume_all(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    caller.may(Right::Administer)?;
    let resume = read_resume(None, params, &body)?;
    let answered = app.command(&caller, body.key, resume).await?;
    Ok(answered.with_status(StatusCode::OK))
}

/// Both words stand in the body or in the query; the body's count.
fn read_pause(
    agent: Option<AgentName>,
    params: Params,
    body: &Body,
) -> Result<PauseScope, Problem> {
    let params = params.only(&["waiting", "new"])?;
    let PauseBody { waiting, new } = body.json_or_empty()?;
    Ok(PauseScope {
        agent,
        waiting: match waiting {
            Some(waiting) => waiting,
            None => params.read_word("waiting")?.unwrap_or_default(),
        },
        new: match new {
            Some(new) => new,
            None => params.read_word("new")?.unwrap_or_default(),
        },
    })
}

fn read_resume(
    agent: Option<AgentName>,
    params: Params,
    body: &Body,
) -> Result<ResumeScope, Problem> {
    let params = params.only(&["mode"])?;
    let ResumeBody { mode } = body.json_or_empty()?;
    let mode = match mode {
        Some(mode) => mode,
        None => params.read_word("mode")?.unwrap_or_default(),
    };
    Ok(ResumeScope { agent, mode })
}
