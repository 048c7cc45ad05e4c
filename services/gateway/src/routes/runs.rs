//! `/runs`: what runs, and stopping, resuming and ending it.

mod events;

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use holdpoint_auth::Right;
use holdpoint_contracts::executor::{
    CancelRun, GetRun, ListRuns, PauseNew, PauseRun, PauseWaiting, ResumeRun, TakeOverRun,
};
use holdpoint_contracts::handoff::{
    Decision, GetRequest, ListRequests, RequestStatus, RequestView,
};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::run::{HoldKind, Page, ResumeMode, RunView, WaitingOn};
use holdpoint_ids::{HoldId, RunId};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::app::App;
use crate::body::{Body, in_body};
use crate::caller::{Caller, PathId, Reader};
use crate::params::{NoParams, Params, invalid};
use crate::problem::ApiError;
use crate::routes::requests;

/// Why a request asks for what a run lacks, as the executor says it.
const MISSING_INPUT: &str = "missing_input";
/// Answered questions of one run that are looked at.
const QUESTIONS_MAX: u64 = 500;
/// How long the owner of a question has to hear of it.
const HEARD_WAIT: Duration = Duration::from_secs(2);
/// How often it is asked whether it has.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

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
struct PauseBody {
    #[serde(default)]
    waiting: Option<PauseWaiting>,
    /// A pause of an agent says it of runs to come; of one run there is none.
    #[serde(default)]
    new: Option<PauseNew>,
}

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
    #[serde(default)]
    version: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TakeOverBody {}

async fn list(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<Json<Page<RunView>>, ApiError> {
    caller.may(Right::Look)?;
    let known = [
        "status",
        "agent",
        "hold",
        "label",
        "created_after",
        "limit",
        "cursor",
    ];
    let params = params.only(&known)?;
    let label: Option<String> = params.read_as("label")?;
    if label.as_ref().is_some_and(|label| !label.contains('=')) {
        return Err(ApiError(invalid("`label` is `name=value`")));
    }
    let created_after = params
        .read_as::<DateTime<Utc>>("created_after")
        .map_err(|_error| invalid("`created_after` is an instant such as 2026-12-01T00:00:00Z"))?;
    let query = ListRuns {
        limit: params.limit()?,
        cursor: params.read_as("cursor")?,
        status: params.read_as("status")?,
        agent: params.read_as("agent")?,
        label,
        created_after,
        hold: params.read_word("hold")?,
    };
    Ok(Json(app.bus.query(&caller.workspace, &query).await?))
}

async fn show(
    State(app): State<App>,
    reader: Reader,
    PathId(run): PathId<RunId>,
    _: NoParams,
) -> Result<Json<RunView>, ApiError> {
    reader.sees(run)?;
    let query = GetRun {
        run,
        raw_errors: reader.operates(),
    };
    let view = app.bus.query(&reader.workspace, &query).await?;
    let hidden = app.hidden(&reader.workspace, reader.user(), run).await;
    Ok(Json(match hidden {
        Some(hidden) => hidden.run(view),
        None => view,
    }))
}

/// Freezes the run (S0-AC4).
async fn pause(
    State(app): State<App>,
    caller: Caller,
    PathId(run): PathId<RunId>,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    caller.may(Right::Operate)?;
    params.only(&[])?;
    // A run that is there already is not a new one: `new` is checked, and has nothing to do.
    let PauseBody { waiting, new } = body.json_or_empty()?;
    let _unused = new;
    let waiting = waiting.unwrap_or_default();
    let pause = PauseRun { run, waiting };
    let answered = app.command(&caller, body.key, pause).await?;
    Ok(answered.with_status(StatusCode::OK))
}

/// Lets it go on; the mode stands in the body or in the query, the body's counts (S0-AC4).
async fn resume(
    State(app): State<App>,
    caller: Caller,
    PathId(run): PathId<RunId>,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
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
    PathId(run): PathId<RunId>,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    caller.may(Right::Operate)?;
    params.only(&[])?;
    let CancelBody { reason } = body.json_or_empty()?;
    let answered = app
        .command(&caller, body.key, CancelRun { run, reason })
        .await?;
    Ok(answered.with_status(StatusCode::OK))
}

/// Says what it lacks before its first step (S2-R12): an answer to the request that asks for it, so
/// that of two who answer one wins, whichever way they came.
async fn confirm(
    State(app): State<App>,
    caller: Caller,
    PathId(run): PathId<RunId>,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    caller.may(Right::Decide)?;
    params.only(&[])?;
    let ConfirmBody { answers, version } = body.json()?;
    let id = asked_first(&app, &caller, run).await?;
    let answer = Value::Object(answers);
    let decision = Decision::Respond { answer };
    requests::decide(&app, &caller, body, (id, decision, version))
        .await
        .map_err(|ApiError(problem)| ApiError(in_body(problem, "/answer", "/answers")))
}

/// The request for what a run lacks before its first step.
async fn asked_first(app: &App, caller: &Caller, run: RunId) -> Result<HoldId, Problem> {
    let view = app.bus.query(&caller.workspace, &GetRun::of(run)).await?;
    // A question of a step names the step.
    let is_first = |on: &&WaitingOn| on.kind == HoldKind::Input && on.step.is_empty();
    let Some(first) = view.waiting_on.iter().find(is_first) else {
        return answered_first(app, caller, run).await;
    };
    // Who answers as soon as the run is there may be before the desired state that tells the owner of it.
    let query = GetRequest { id: first.id };
    let by = Instant::now() + HEARD_WAIT;
    while let Err(problem) = app.bus.query(&caller.workspace, &query).await
        && problem.status == 404
        && Instant::now() < by
    {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(first.id)
}

/// The same where it is answered already: whoever repeats their answer is told what became of it, and
/// anybody else who was first.
async fn answered_first(app: &App, caller: &Caller, run: RunId) -> Result<HoldId, Problem> {
    let query = ListRequests {
        limit: QUESTIONS_MAX,
        status: Some(RequestStatus::Decided),
        kind: Some(HoldKind::Input),
        run: Some(run),
        ..ListRequests::default()
    };
    let page = app.bus.query(&caller.workspace, &query).await?;
    let is_first = |request: &RequestView| request.reason.as_deref() == Some(MISSING_INPUT);
    let first = page.items.into_iter().find(is_first);
    first.map(|request| request.id).ok_or_else(|| {
        let detail = format!("run `{run}` does not wait for inputs; see its `questions`");
        Problem::new(409, "nothing_asked", detail)
    })
}

/// The caller becomes its owner; the agent is fenced off until they hand it back.
async fn take_over(
    State(app): State<App>,
    caller: Caller,
    PathId(run): PathId<RunId>,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    caller.may(Right::Operate)?;
    params.only(&[])?;
    let TakeOverBody {} = body.json_or_empty()?;
    let answered = app.command(&caller, body.key, TakeOverRun { run }).await?;
    Ok(answered.with_status(StatusCode::OK))
}
