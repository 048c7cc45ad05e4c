//! `/rehearsals`: rehearsals that are kept for some days.

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use holdpoint_contracts::Problem;
use holdpoint_contracts::rehearsal::{
    Rehearsal, RehearsalChanges, RehearsalDetail, RehearsalSummary, RehearseAgent, RehearsedRun,
    StoredRehearsal,
};
use holdpoint_contracts::run::Page;
use holdpoint_ids::AgentName;
use tokio::time::Instant;

use super::agents::limited_caller::LimitedCaller;
use super::requests::wait::read_wait;
use crate::app::App;
use crate::auth::may::{Look, May};
use crate::body::Body;
use crate::call::{Call, NoBody};
use crate::idempotency::{find_answer, keep_answer};
use crate::params::{Params, invalid};
use crate::path::NoId;
use crate::problem::{ApiError, ApiResult, JsonResult};
use crate::store::rehearsals::{self, Found, RehearsalId};
use crate::use_cases::rehearse::{self, Start};

/// Most runs of one page. The longest timelines together stay below 4 MiB.
const RUNS_PAGE_MAX: u64 = 25;

/// Most rehearsals of one page.
const PAGE_MAX: u64 = 100;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/rehearsals", get(list).post(start))
        .route("/rehearsals/{id}", get(show).delete(remove))
        .route("/rehearsals/{id}/cancel", post(cancel))
        .route("/rehearsals/{id}/runs", get(runs))
        .route("/rehearsals/{id}/changes", get(changes))
}

/// Refuses a wrong agent or script. The contacts after the first one are rehearsed after the reply. The permit is taken
/// after the body: a slow body would keep the workspace from rehearsing, and a repetition needs none.
async fn start(call: Call<LimitedCaller<Look>, NoId, Body>) -> ApiResult<Response> {
    let (caller, key) = (call.caller.caller, call.key);
    let app = &caller.app;
    if let Some(answer) = find_answer(app, key.as_ref()).await? {
        return Ok((StatusCode::CREATED, Json(answer)).into_response());
    }
    let request: RehearseAgent = call.body.json(false)?;
    let workspace = &caller.workspace;
    let start = Start {
        request,
        permit: app
            .rehearsals
            .take(workspace, caller.claims.user.as_str())?,
        erasures: rehearsals::count_erasures(&app.writer, workspace).await?,
    };
    let id = rehearse::start(app, &caller, start).await?;
    let Found { rehearsal, .. } = find(&caller, id).await?;
    let answer = serde_json::to_value(&rehearsal).unwrap_or_default();
    keep_answer(app, &caller, key.as_ref(), answer).await;
    Ok((StatusCode::CREATED, Json(rehearsal)).into_response())
}

/// Newest first.
async fn list(call: Call<Look, NoId, NoBody, Params>) -> JsonResult<Page<StoredRehearsal>> {
    let params = call.params.only(&["agent", "limit", "cursor"])?;
    let limit = params.limit()?.min(PAGE_MAX);
    let agent: Option<AgentName> = params.read_as("agent")?;
    let before = params.read_as("cursor")?;
    let (app, workspace) = (&call.caller.app, &call.caller.workspace);
    let kept = app.kept_rehearsals(workspace);
    let items = kept.list(agent.as_ref(), before, limit + 1).await?;
    Ok(Json(Page::cut(items, limit, |last| last.id.clone())))
}

/// The rehearsal with its totals. With `wait`, once it has ended or that time is over.
async fn show(call: Call<Look, RehearsalId, NoBody, Params>) -> JsonResult<RehearsalDetail> {
    let (caller, id) = (call.caller, call.id);
    let params = call.params.only(&["wait"])?;
    let wait: Option<String> = params.read_as("wait")?;
    let (app, workspace) = (&caller.app, &caller.workspace);
    let found = match wait {
        None => find(&caller, id).await?,
        Some(wait) => {
            let deadline = Instant::now() + read_wait(&wait)?;
            let _permit = app.streams.take(workspace, caller.claims.user.as_str())?;
            let found = rehearse::await_end(app, workspace, id, deadline).await?;
            found.ok_or_else(|| not_found(id))?
        }
    };
    let heads = rehearsals::heads(&app.writer, id).await?;
    Ok(Json(RehearsalDetail {
        summary: RehearsalSummary::of(&heads, &found.steps),
        rehearsal: found.rehearsal,
        steps: found.steps,
    }))
}

/// The runs in the order of the contacts.
async fn runs(call: Call<Look, RehearsalId, NoBody, Params>) -> JsonResult<Page<RehearsedRun>> {
    let (caller, id) = (call.caller, call.id);
    let params = call.params.only(&["limit", "cursor"])?;
    let limit = params.limit()?.min(RUNS_PAGE_MAX);
    let from: Option<u32> = params.read_as("cursor")?;
    let from = from.unwrap_or(0).into();
    find(&caller, id).await?;
    let placed = rehearsals::runs(&caller.app.readers, id, from, limit + 1).await?;
    let Page { items, next_cursor } = Page::cut(placed, limit, |last| {
        last.place.saturating_add(1).to_string()
    });
    Ok(Json(Page {
        items: items.into_iter().map(|placed| placed.run).collect(),
        next_cursor,
    }))
}

/// The contacts whose runs differ from those of an earlier rehearsal.
async fn changes(call: Call<Look, RehearsalId, NoBody, Params>) -> JsonResult<RehearsalChanges> {
    let caller = call.caller;
    let from: Option<RehearsalId> = call.params.only(&["from"])?.read_as("from")?;
    let from = from.ok_or_else(|| {
        invalid("`from` is missing; expected the id of the rehearsal to compare with")
    })?;
    let _permit = caller
        .app
        .plans
        .take(&caller.workspace, caller.claims.user.as_str())?;
    let _one_reader = caller.app.reading_rehearsals.lock().await;
    let after = load(&caller, call.id).await?;
    let before = load(&caller, from).await?;
    Ok(Json(RehearsalChanges::between(&before, &after)))
}

async fn load(caller: &May<Look>, id: RehearsalId) -> Result<Rehearsal, ApiError> {
    let found = find(caller, id).await?;
    Ok(rehearsals::load(&caller.app.readers, id, found).await?)
}

/// The rehearsal ends. The runs that it has are kept.
async fn cancel(call: Call<Look, RehearsalId>) -> JsonResult<StoredRehearsal> {
    let (caller, id) = (call.caller, call.id);
    let app = &caller.app;
    rehearse::require_creator(&caller, &find(&caller, id).await?.rehearsal)?;
    rehearse::cancel(app, id).await?;
    Ok(Json(find(&caller, id).await?.rehearsal))
}

async fn remove(call: Call<Look, RehearsalId>) -> ApiResult<StatusCode> {
    let (caller, id) = (call.caller, call.id);
    rehearse::require_creator(&caller, &find(&caller, id).await?.rehearsal)?;
    if rehearse::remove(&caller.app, &caller.workspace, id).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(not_found(id))
}

async fn find(caller: &May<Look>, id: RehearsalId) -> Result<Found, ApiError> {
    let kept = caller.app.kept_rehearsals(&caller.workspace);
    let found = kept.find(id).await?;
    found.ok_or_else(|| not_found(id))
}

fn not_found(id: RehearsalId) -> ApiError {
    ApiError(Problem::not_found(format!("rehearsal `{id}` not found")))
}
