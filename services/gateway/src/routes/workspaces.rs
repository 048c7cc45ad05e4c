//! `POST /v1/workspaces`: a new tenant with its first owner.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use holdpoint_auth::Right;
use holdpoint_contracts::{Problem, subject};
use holdpoint_ids::Workspace;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::auth::bootstrap_owner;
use crate::auth::caller::User;
use crate::body::{Body, invalid_field};
use crate::params::NoParams;
use crate::problem::{ApiError, ApiResult, database_away};
use crate::store::tokens;
use crate::store::workspaces::{self, Claimed};

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
    State(app): State<App>,
    user: User,
    _: NoParams,
    body: Body,
) -> ApiResult<(StatusCode, Json<MadeWorkspace>)> {
    user.require_installation_right(Right::Own)?;
    let WorkspaceBody { workspace } = body.json()?;
    if RESERVED.contains(&workspace.as_str()) {
        return Err(ApiError(invalid_field(
            "/workspace",
            "is reserved; choose another name",
        )));
    }
    claim(&app, &user, &workspace, &body).await?;
    require_first_token(&app, &workspace, &body).await?;
    let token = bootstrap_owner::create_token(&app, &workspace, body.key).await?;
    workspaces::note_token(&app.writer, &workspace, app.clock.now())
        .await
        .map_err(database_away)?;
    Ok((
        StatusCode::CREATED,
        Json(MadeWorkspace { workspace, token }),
    ))
}

/// The maker gets the token again until it is revoked. Then the workspace belongs to its owners alone (A-H4).
///
/// # Errors
/// 409 for a workspace whose first token was revoked.
async fn require_first_token(app: &App, workspace: &Workspace, body: &Body) -> Result<(), Problem> {
    let has_token = workspaces::has_token(&app.writer, workspace);
    if !has_token.await.map_err(database_away)? {
        return Ok(());
    }
    let is_there = match &body.key {
        Some(key) => tokens::is_made_under(&app.writer, &key.key).await,
        None => Ok(false),
    };
    if is_there.map_err(database_away)? {
        return Ok(());
    }
    let detail = format!("workspace `{workspace}` exists, and its first token was revoked");
    Err(Problem::new(409, "workspace_exists", detail))
}

/// Reserves the name for one maker. A maker who failed half-way, or repeats the request under its key, continues.
async fn claim(app: &App, user: &User, workspace: &Workspace, body: &Body) -> Result<(), Problem> {
    let exists = || {
        let detail = format!("the name `{workspace}` is in use; choose another name");
        Problem::new(409, "workspace_exists", detail)
    };
    let key = body.key.as_ref().map_or("", |key| key.key.as_str());
    let maker = format!("{}/{}/{key}", user.0.workspace, user.0.user);
    app.people.refresh().await?;
    let has_users = holdpoint_user_directory::table::any_in(&app.readers, workspace)
        .await
        .map_err(database_away)?;
    if has_users && key.is_empty() {
        return Err(exists());
    }
    // A workspace that is older than this table has users and no row.
    let maker_if_new = if has_users { "" } else { maker.as_str() };
    let bound = (WORKSPACES_MAX, app.clock.now());
    let claimed = workspaces::claim(&app.writer, workspace, maker_if_new, bound)
        .await
        .map_err(database_away)?;
    match claimed {
        Claimed::By(first) if first == maker => Ok(()),
        Claimed::By(_other) => Err(exists()),
        Claimed::Full => {
            let detail = format!("too many workspaces; expected at most {WORKSPACES_MAX}");
            Err(Problem::new(409, "too_many_workspaces", detail))
        }
    }
}
