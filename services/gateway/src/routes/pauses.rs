//! Pausing and resuming an agent or the whole workspace (S0-AC4, S0-T6).

use axum::Router;
use axum::routing::post;
use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::{
    ChangedScope, PauseNew, PauseScope, PauseWaiting, ResumeScope,
};
use holdpoint_contracts::run::ResumeMode;
use holdpoint_ids::AgentName;
use serde::Deserialize;

use crate::app::App;
use crate::auth::may::{Administer, Operate};
use crate::call::{Call, OptionalJson};
use crate::command_outcome::CommandResult;
use crate::params::Params;
use crate::path::NoId;

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

type PauseCall<D, I> = Call<D, I, OptionalJson<PauseBody>, Params>;
type ResumeCall<D, I> = Call<D, I, OptionalJson<ResumeBody>, Params>;

async fn pause_agent(call: PauseCall<Operate, AgentName>) -> CommandResult<ChangedScope> {
    let pause = read_pause(Some(call.id), call.params, &call.body)?;
    call.caller.command(call.key, pause).await
}

async fn pause_all(call: PauseCall<Administer, NoId>) -> CommandResult<ChangedScope> {
    let pause = read_pause(None, call.params, &call.body)?;
    call.caller.command(call.key, pause).await
}

async fn resume_agent(call: ResumeCall<Operate, AgentName>) -> CommandResult<ChangedScope> {
    let (agent, mode) = (Some(call.id), call.body.read_mode(call.params)?);
    call.caller
        .command(call.key, ResumeScope { agent, mode })
        .await
}

async fn resume_all(call: ResumeCall<Administer, NoId>) -> CommandResult<ChangedScope> {
    let (agent, mode) = (None, call.body.read_mode(call.params)?);
    call.caller
        .command(call.key, ResumeScope { agent, mode })
        .await
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
