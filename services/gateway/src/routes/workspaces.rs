//! `POST /v1/workspaces`: a new tenant with an owner of its own.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use holdpoint_auth::Right;
use holdpoint_contracts::{Problem, subject};
use holdpoint_ids::Workspace;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::body::{Body, invalid_field};
use crate::caller::User;
use crate::owners;
use crate::params::Params;
use crate::problem::{ApiError, database_away};
use crate::store::tokens;
use crate::store::workspaces::{self, Claimed};

/// Names that subjects use for something else.
const TAKEN: [&str; 2] = [subject::SYSTEM_WORKSPACE, "timers"];

/// Workspaces of one installation that are made here. Those who make some at the same moment on Postgres
/// may make a few more.
const WORKSPACES_MAX: u64 = 1_000;

pub(crate) fn routes() -> Router<App> {
    Router::new().route("/v1/workspaces", post(make))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkspaceBody {
    workspace: Workspace,
}

#[derive(Debug, Serialize)]
struct MadeWorkspace {
    workspace: Workspace,
    /// Of its owner; shown this once.
    token: String,
}

/// Owners of the first workspace may: they run the installation, and learn which names are taken (A-L4).
async fn make(
    State(app): State<App>,
    user: User,
    params: Params,
    body: Body,
) -> Result<(StatusCode, Json<MadeWorkspace>), ApiError> {
    user.runs_installation(Right::Own)?;
    params.only(&[])?;
    let WorkspaceBody { workspace } = body.json()?;
    if TAKEN.contains(&workspace.as_str()) {
        return Err(ApiError(invalid_field(
            "/workspace",
            "the system uses this name itself; take another one",
        )));
    }
    claim(&app, &user, &workspace, &body).await?;
    is_not_given_away(&app, &workspace, &body).await?;
    let token = owners::token(&app, &workspace, body.key).await?;
    workspaces::note_token(&app.writer, &workspace, app.clock.now())
        .await
        .map_err(database_away)?;
    Ok((
        StatusCode::CREATED,
        Json(MadeWorkspace { workspace, token }),
    ))
}

/// The maker gets the token again as long as it was not revoked: afterwards the workspace belongs to its own
/// owners (A-H4).
async fn is_not_given_away(app: &App, workspace: &Workspace, body: &Body) -> Result<(), Problem> {
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
    let detail = format!("the workspace `{workspace}` was made, and its first token was revoked");
    Err(Problem::new(409, "workspace_exists", detail))
}

/// One maker wins. Who began and did not come to the end, or asks again under the same key, goes on.
async fn claim(app: &App, user: &User, workspace: &Workspace, body: &Body) -> Result<(), Problem> {
    let exists = || {
        let detail = format!("the name `{workspace}` is taken");
        Problem::new(409, "workspace_exists", detail)
    };
    let key = body.key.as_ref().map_or("", |key| key.key.as_str());
    let maker = format!("{}/{}/{key}", user.0.workspace, user.0.user);
    app.people.refresh().await?;
    let is_lived_in = holdpoint_user_directory::table::any_in(&app.readers, workspace)
        .await
        .map_err(database_away)?;
    if is_lived_in && key.is_empty() {
        return Err(exists());
    }
    // A workspace of before this table has people and no row.
    let maker_if_new = if is_lived_in { "" } else { maker.as_str() };
    let bound = (WORKSPACES_MAX, app.clock.now());
    let claimed = workspaces::claim(&app.writer, workspace, maker_if_new, bound)
        .await
        .map_err(database_away)?;
    match claimed {
        Claimed::By(first) if first == maker => Ok(()),
        Claimed::By(_other) => Err(exists()),
        Claimed::Full => {
            let detail = format!("an installation has {WORKSPACES_MAX} workspaces at most");
            Err(Problem::new(409, "too_many_workspaces", detail))
        }
    }
}
