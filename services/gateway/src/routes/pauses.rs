//! Pausing and resuming an agent or the whole workspace (S0-AC4, S0-T6).

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::post;
use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::{PauseNew, PauseScope, PauseWaiting, ResumeScope};
use holdpoint_contracts::run::ResumeMode;
use holdpoint_ids::AgentName;
use serde::Deserialize;

use crate::app::App;
use crate::auth::may::{Administer, May, Operate};
use crate::body::OptionalJson;
use crate::params::Params;
use crate::path::PathId;
use crate::problem::ApiResult;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/agents/{agent}/pause", post(pause_agent))
        .route("/agents/{agent}/resume", post(resume_agent))
        .route("/pause", post(pause_all))
        .route("/resume", post(resume_all))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PauseBody {
    #[serde(default)]
    pub(super) waiting: Option<PauseWaiting>,
    #[serde(default)]
    new: Option<PauseNew>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResumeBody {
    #[serde(default)]
    mode: Option<ResumeMode>,
}

async fn pause_agent(
    caller: May<Operate>,
    PathId(agent): PathId<AgentName>,
    params: Params,
    body: OptionalJson<PauseBody>,
) -> ApiResult<impl IntoResponse> {
    let pause = read_pause(Some(agent), params, &body.value)?;
    caller.command(body.key, pause).await
}

async fn pause_all(
    caller: May<Administer>,
    params: Params,
    body: OptionalJson<PauseBody>,
) -> ApiResult<impl IntoResponse> {
    let pause = read_pause(None, params, &body.value)?;
    caller.command(body.key, pause).await
}

async fn resume_agent(
    caller: May<Operate>,
    PathId(agent): PathId<AgentName>,
    params: Params,
    body: OptionalJson<ResumeBody>,
) -> ApiResult<impl IntoResponse> {
    let agent = Some(agent);
    let mode = body.value.read_mode(params)?;
    caller.command(body.key, ResumeScope { agent, mode }).await
}

async fn resume_all(
    caller: May<Administer>,
    params: Params,
    body: OptionalJson<ResumeBody>,
) -> ApiResult<impl IntoResponse> {
    let agent = None;
    let mode = body.value.read_mode(params)?;
    caller.command(body.key, ResumeScope { agent, mode }).await
}

/// Both words are in the body or in the query; the body wins.
fn read_pause(
    agent: Option<AgentName>,
    params: Params,
    body: &PauseBody,
) -> Result<PauseScope, Problem> {
    let params = params.only(&["waiting", "new"])?;
    Ok(PauseScope {
        agent,
        waiting: params.read_word_unless(body.waiting, "waiting")?,
        new: params.read_word_unless(body.new, "new")?,
    })
}

impl ResumeBody {
    /// The mode of the body, else of the query.
    pub(super) fn read_mode(self, params: Params) -> Result<ResumeMode, Problem> {
        params.only(&["mode"])?.read_word_unless(self.mode, "mode")
    }
}
