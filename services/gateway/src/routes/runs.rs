//! `/runs`: reading, pausing, suspending, resuming, canceling and taking over runs, sending signals to them, and deciding
//! their steps. Also pausing and resuming agents and the workspace.

mod approve;
mod blobs;
mod confirm;
mod events;
mod suspension;

use std::fmt::Display;
use std::str::FromStr;

use axum::routing::{get, patch, post};
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::{
    CancelRun, ChangedScope, GetRun, ListRuns, MigrateRun, PatchContext, PauseNew, PauseRun,
    PauseScope, PauseWaiting, ResumeRun, ResumeScope, RetryRun, SignalRun, TakeOverRun,
};
use holdpoint_contracts::run::{ChangedRun, Page, ResumeMode, RunView};
use holdpoint_contracts::suspension::StepOnResume;
use holdpoint_ids::{AgentName, RunId};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::app::App;
use crate::auth::may::{Administer, Ask, Demand, Look, May, Operate};
use crate::auth::run_reader::RunReader;
use crate::call::{Call, JsonBody, OptionalJson};
use crate::command_outcome::CommandResult;
use crate::params::{NoParams, Params, invalid};
use crate::path::NoId;
use crate::problem::{ApiError, JsonResult};

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/runs", get(list))
        .route("/runs/{run}", get(show))
        .route("/runs/{run}/events", get(events::events))
        .route("/runs/{run}/pause", post(pause))
        .route("/runs/{run}/resume", post(resume))
        .route("/runs/{run}/cancel", post(cancel))
        .route("/runs/{run}/retry", post(retry))
        .route("/runs/{run}/migrate", post(migrate))
        .route("/runs/{run}/signal", post(signal))
        .route("/runs/{run}/context", patch(patch_context))
        .route("/runs/{run}/suspend", post(suspension::suspend))
        .route("/runs/{run}/snapshot", get(suspension::snapshot))
        .route(
            "/runs/{run}/steps/{step}/blobs/{sha256}",
            get(blobs::get).put(blobs::put),
        )
        .route("/runs/{run}/approve", post(approve::approve))
        .route("/runs/{run}/confirm", post(confirm::confirm))
        .route("/runs/{run}/take-over", post(take_over))
        .route(
            "/agents/{agent}/pause",
            post(pause_scope::<Operate, AgentName>),
        )
        .route(
            "/agents/{agent}/resume",
            post(resume_scope::<Operate, AgentName>),
        )
        .route("/pause", post(pause_scope::<Administer, NoId>))
        .route("/resume", post(resume_scope::<Administer, NoId>))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PauseBody {
    waiting: Option<PauseWaiting>,
    new: Option<PauseNew>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResumeBody {
    mode: Option<ResumeMode>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResumeRunBody {
    mode: Option<ResumeMode>,
    step: Option<StepOnResume>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelBody {
    reason: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RetryBody {
    from_step: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MigrateBody {
    version: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SignalBody {
    name: String,
    #[serde(default)]
    data: Value,
    key: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TakeOverBody {}

type RunCall<B, Q = NoParams> = Call<Operate, RunId, OptionalJson<B>, Q>;

async fn list(caller: May<Look>, params: Params) -> JsonResult<Page<RunView>> {
    let params = params.only(&[
        "status",
        "agent",
        "hold",
        "label",
        "created_after",
        "limit",
        "cursor",
    ])?;
    let label: Option<String> = params.read_as("label")?;
    if label.as_ref().is_some_and(|label| !label.contains('=')) {
        return Err(ApiError(invalid("invalid `label`; expected `name=value`")));
    }
    let created_after = params.read_as::<DateTime<Utc>>("created_after");
    let created_after = created_after.map_err(|_error| {
        invalid("invalid `created_after`; expected an instant such as 2026-12-01T00:00:00Z")
    })?;
    let query = ListRuns {
        limit: params.limit()?,
        cursor: params.read_as("cursor")?,
        status: params.read_as("status")?,
        agent: params.read_as("agent")?,
        label,
        created_after,
        hold: params.read_word("hold")?,
    };
    caller.query(query).await
}

async fn show(call: Call<RunReader, RunId>) -> JsonResult<RunView> {
    let (reader, run) = (call.caller, call.id);
    reader.require_run(run)?;
    let query = GetRun {
        run,
        raw_errors: reader.is_operator(),
    };
    let view = reader.query(query).await?;
    let app = &reader.app;
    let redaction = app.redaction_of(&reader.workspace, reader.user(), run, &view.steps);
    Ok(Json(match redaction.await {
        Some(redaction) => redaction.redact_run(view),
        None => view,
    }))
}

/// Freezes the run (S0-AC4). `new` of the body concerns future runs of an agent, so it has no effect here.
async fn pause(call: RunCall<PauseBody>) -> CommandResult<ChangedRun> {
    let (run, waiting) = (call.id, call.body.waiting.unwrap_or_default());
    call.caller
        .command(call.key, PauseRun { run, waiting })
        .await
}

/// Ends the pause and the suspension of the run. The mode is in the body or in the query; the body wins (S0-AC4).
async fn resume(call: RunCall<ResumeRunBody, Params>) -> CommandResult<ChangedRun> {
    let ResumeRunBody { mode, step } = call.body;
    let (run, mode) = (call.id, ResumeBody { mode }.read_mode(call.params)?);
    let command = ResumeRun { run, mode, step };
    call.caller.command(call.key, command).await
}

/// Cancels the run (S2-R13).
async fn cancel(call: RunCall<CancelBody>) -> CommandResult<ChangedRun> {
    let (run, reason) = (call.id, call.body.reason);
    call.caller
        .command(call.key, CancelRun { run, reason })
        .await
}

/// Continues a failed run, perhaps from an earlier step.
async fn retry(call: RunCall<RetryBody>) -> CommandResult<ChangedRun> {
    let (run, from_step) = (call.id, call.body.from_step);
    call.caller
        .command(call.key, RetryRun { run, from_step })
        .await
}

/// Moves the run to a newer version of its agent.
async fn migrate(call: RunCall<MigrateBody>) -> CommandResult<ChangedRun> {
    let (run, version) = (call.id, call.body.version);
    call.caller
        .command(call.key, MigrateRun { run, version })
        .await
}

/// Changes what later steps see as the input of the run (RFC 7386).
async fn patch_context(
    call: Call<Operate, RunId, JsonBody<Map<String, Value>>>,
) -> CommandResult<ChangedRun> {
    let (run, patch) = (call.id, call.body);
    call.caller
        .command(call.key, PatchContext { run, patch })
        .await
}

/// Sends a signal to the run. A step that waits for it goes on; an early signal is kept.
async fn signal(call: Call<Ask, RunId, JsonBody<SignalBody>>) -> CommandResult<ChangedRun> {
    let run = call.id;
    let SignalBody { name, data, key } = call.body;
    let command = SignalRun {
        run,
        name,
        data,
        key,
    };
    call.caller.command(call.key, command).await
}

/// Makes the caller the owner of the run. Its agent is fenced off until the caller hands it back.
async fn take_over(call: RunCall<TakeOverBody>) -> CommandResult<ChangedRun> {
    let TakeOverBody {} = call.body;
    let command = TakeOverRun { run: call.id };
    call.caller.command(call.key, command).await
}

/// Pauses the agent of the path, or without one the workspace (S0-AC4, S0-T6).
async fn pause_scope<D: Demand, I: Into<Option<AgentName>> + FromStr<Err: Display> + Send>(
    call: Call<D, I, OptionalJson<PauseBody>, Params>,
) -> CommandResult<ChangedScope> {
    let pause = read_pause(call.id.into(), call.params, &call.body)?;
    call.caller.command(call.key, pause).await
}

/// Resumes what [`pause_scope`] has paused.
async fn resume_scope<D: Demand, I: Into<Option<AgentName>> + FromStr<Err: Display> + Send>(
    call: Call<D, I, OptionalJson<ResumeBody>, Params>,
) -> CommandResult<ChangedScope> {
    let (agent, mode) = (call.id.into(), call.body.read_mode(call.params)?);
    let command = ResumeScope { agent, mode };
    call.caller.command(call.key, command).await
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
    fn read_mode(self, params: Params) -> Result<ResumeMode, Problem> {
        params.only(&["mode"])?.read_word_unless(self.mode, "mode")
    }
}
