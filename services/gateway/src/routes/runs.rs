//! `/runs`: reading, pausing, resuming, canceling and taking over runs.

mod confirm;
mod events;

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::{
    CancelRun, GetRun, ListRuns, PauseRun, ResumeRun, TakeOverRun,
};
use holdpoint_contracts::run::{ChangedRun, Page, RunView};
use holdpoint_ids::RunId;
use serde::Deserialize;

use super::pauses::{PauseBody, ResumeBody};
use crate::app::App;
use crate::auth::may::{Look, May, Operate};
use crate::auth::run_reader::RunReader;
use crate::body::OptionalJson;
use crate::command_outcome::CommandOutcome;
use crate::params::{NoParams, Params, invalid};
use crate::path::PathId;
use crate::problem::{ApiError, ApiResult};

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/runs", get(list))
        .route("/runs/{run}", get(show))
        .route("/runs/{run}/events", get(events::events))
        .route("/runs/{run}/pause", post(pause))
        .route("/runs/{run}/resume", post(resume))
        .route("/runs/{run}/cancel", post(cancel))
        .route("/runs/{run}/confirm", post(confirm::confirm))
        .route("/runs/{run}/take-over", post(take_over))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelBody {
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TakeOverBody {}

async fn list(caller: May<Look>, params: Params) -> ApiResult<Json<Page<RunView>>> {
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

async fn show(
    State(app): State<App>,
    reader: RunReader,
    PathId(run): PathId<RunId>,
    _: NoParams,
) -> ApiResult<Json<RunView>> {
    reader.require_run(run)?;
    let query = GetRun {
        run,
        raw_errors: reader.is_operator(),
    };
    let view = app.bus.query(&reader.workspace, &query).await?;
    let redaction = app.redaction_of(&reader.workspace, reader.user(), run);
    Ok(Json(match redaction.await {
        Some(redaction) => redaction.redact_run(view),
        None => view,
    }))
}

/// Freezes the run (S0-AC4). `new` of the body concerns future runs of an agent, so it has no effect here.
async fn pause(
    caller: May<Operate>,
    PathId(run): PathId<RunId>,
    _: NoParams,
    body: OptionalJson<PauseBody>,
) -> ApiResult<CommandOutcome<ChangedRun>> {
    let waiting = body.value.waiting.unwrap_or_default();
    caller.command(body.key, PauseRun { run, waiting }).await
}

/// Resumes the run. The mode is in the body or in the query; the body wins (S0-AC4).
async fn resume(
    caller: May<Operate>,
    PathId(run): PathId<RunId>,
    params: Params,
    body: OptionalJson<ResumeBody>,
) -> ApiResult<CommandOutcome<ChangedRun>> {
    let mode = body.value.read_mode(params)?;
    caller.command(body.key, ResumeRun { run, mode }).await
}

/// Cancels the run (S2-R13).
async fn cancel(
    caller: May<Operate>,
    PathId(run): PathId<RunId>,
    _: NoParams,
    body: OptionalJson<CancelBody>,
) -> ApiResult<CommandOutcome<ChangedRun>> {
    let CancelBody { reason } = body.value;
    caller.command(body.key, CancelRun { run, reason }).await
}

/// Makes the caller the owner of the run. Its agent is fenced off until the caller hands it back.
async fn take_over(
    caller: May<Operate>,
    PathId(run): PathId<RunId>,
    _: NoParams,
    body: OptionalJson<TakeOverBody>,
) -> ApiResult<CommandOutcome<ChangedRun>> {
    let TakeOverBody {} = body.value;
    caller.command(body.key, TakeOverRun { run }).await
}
