//! `POST /v1/workspaces`: a new tenant with its first owner.

use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use holdpoint_contracts::{IdempotencyKey, Problem, subject};
use holdpoint_ids::Workspace;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::auth::bootstrap_owner;
use crate::auth::caller::Caller;
use crate::auth::may::{Installation, Own};
use crate::body::invalid_field;
use crate::call::{Call, JsonBody};
use crate::path::NoId;
use crate::problem::{ApiError, ApiResult};
use crate::store::tokens;
use crate::store::workspaces::{self, Reserved};

/// Names with another meaning in subjects.
const RESERVED: [&str; 2] = [subject::SYSTEM_WORKSPACE, "timers"];

/// Most workspaces of an installation. Concurrent requests on Postgres may exceed it by a few.
const WORKSPACES_MAX: u64 = 1_000;

pub(crate) fn routes() -> Router<App> {
    Router::new().route("/v1/workspaces", post(create))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkspaceBody {
    workspace: Workspace,
}

#[derive(Debug, Serialize)]
struct MadeWorkspace {
    workspace: Workspace,
    /// Token of the owner. Only this answer shows it.
    token: String,
}

/// Only owners of the first workspace may create one, because they learn which names are taken (A-L4).
async fn create(
    call: Call<Installation<Own>, NoId, JsonBody<WorkspaceBody>>,
) -> ApiResult<(StatusCode, Json<MadeWorkspace>)> {
    let (caller, key, WorkspaceBody { workspace }) = (call.caller, call.key, call.body);
    let app = &caller.app;
    if RESERVED.contains(&workspace.as_str()) {
        return Err(ApiError(invalid_field(
            "/workspace",
            "is reserved; choose another name",
        )));
    }
    reserve_name(&caller, app, &workspace, key.as_ref()).await?;
    require_first_token(app, &workspace, key.as_ref()).await?;
    let token = bootstrap_owner::create_token(app, &workspace, key).await?;
    workspaces::note_token(&app.writer, &workspace, app.clock.now()).await?;
    Ok((
        StatusCode::CREATED,
        Json(MadeWorkspace { workspace, token }),
    ))
}

/// The maker gets the token again until it is revoked. Then the workspace belongs to its owners alone (A-H4).
///
/// # Errors
/// 409 for a workspace whose first token was revoked.
async fn require_first_token(
    app: &App,
    workspace: &Workspace,
    key: Option<&IdempotencyKey>,
) -> ApiResult<()> {
    if !workspaces::has_token(&app.writer, workspace).await? {
        return Ok(());
    }
    if let Some(key) = key
        && tokens::is_made_under(&app.writer, &key.key).await?
    {
        return Ok(());
    }
    let detail = format!("workspace `{workspace}` exists, and its first token was revoked");
    Err(Problem::new(409, "workspace_exists", detail).into())
}

/// Reserves the name for one maker. A maker who failed half-way, or repeats the request under its key, continues.
async fn reserve_name(
    caller: &Caller,
    app: &App,
    workspace: &Workspace,
    key: Option<&IdempotencyKey>,
) -> ApiResult<()> {
    let exists = || {
        let detail = format!("the name `{workspace}` is in use; choose another name");
        ApiError(Problem::new(409, "workspace_exists", detail))
    };
    let key = key.map_or("", |key| key.key.as_str());
    let maker = format!("{}/{}/{key}", caller.workspace, caller.claims.user);
    app.people.refresh().await?;
    let has_users = holdpoint_user_directory::table::any_in(&app.readers, workspace).await?;
    if has_users && key.is_empty() {
        return Err(exists());
    }
    // A workspace that is older than this table has users and no row.
    let maker_if_new = if has_users { "" } else { maker.as_str() };
    let bound = (WORKSPACES_MAX, app.clock.now());
    match workspaces::reserve_name(&app.writer, workspace, maker_if_new, bound).await? {
        Reserved::By(first) if first == maker => Ok(()),
        Reserved::By(_other) => Err(exists()),
        Reserved::Full => {
            let detail = format!("too many workspaces; expected at most {WORKSPACES_MAX}");
            Err(Problem::new(409, "too_many_workspaces", detail).into())
        }
    }
}
