//! `/users`: people and programs of the workspace. They are the handoff service's; owner and admin
//! change them, and only owners make or unmake owners.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use axum::{Json, Router};
use holdpoint_auth::{Right, Role};
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{DisableUser, GetUser, ListUsers, PutUser, UserView};
use holdpoint_contracts::run::Page;
use holdpoint_ids::{RoleName, UserName};

use crate::answered::CommandOutcome;
use crate::app::App;
use crate::body::Body;
use crate::caller::{Caller, PathId};
use crate::params::{NoParams, Params};
use crate::problem::ApiError;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/users", get(list).post(put))
        .route("/users/{name}", get(show).delete(disable))
}

async fn list(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<Json<Page<UserView>>, ApiError> {
    caller.may(Right::Administer)?;
    let params = params.only(&["limit", "cursor"])?;
    let query = ListUsers {
        limit: params.limit()?,
        cursor: params.read_as("cursor")?,
    };
    Ok(Json(app.bus.query(&caller.workspace, &query).await?))
}

async fn show(
    State(app): State<App>,
    caller: Caller,
    PathId(name): PathId<UserName>,
    _: NoParams,
) -> Result<Json<UserView>, ApiError> {
    caller.may(Right::Administer)?;
    Ok(Json(
        app.bus.query(&caller.workspace, &GetUser { name }).await?,
    ))
}

async fn put(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    caller.may(Right::Administer)?;
    params.only(&[])?;
    let user: PutUser = body.json()?;
    guard_owners(&app, &caller, &user.name, &user.roles).await?;
    let answered = app.command(&caller, body.key, user).await?;
    take(&app, &caller, &answered).await?;
    Ok(answered.with_status(StatusCode::CREATED))
}

async fn disable(
    State(app): State<App>,
    caller: Caller,
    PathId(name): PathId<UserName>,
    params: Params,
) -> Result<Response, ApiError> {
    caller.may(Right::Administer)?;
    params.only(&[])?;
    guard_owners(&app, &caller, &name, &[]).await?;
    let answered = app.command(&caller, None, DisableUser { name }).await?;
    take(&app, &caller, &answered).await?;
    Ok(answered.with_status(StatusCode::OK))
}

/// Who becomes an owner, or is one, is changed by owners only.
async fn guard_owners(
    app: &App,
    caller: &Caller,
    name: &UserName,
    roles: &[RoleName],
) -> Result<(), Problem> {
    let is_owner = |role: &RoleName| role.as_str() == Role::Owner.as_str();
    let known = app.people.known(&caller.workspace, name).await?;
    let was = known.is_some_and(|user| user.roles.iter().any(is_owner));
    if was || roles.iter().any(is_owner) {
        caller.may(Right::Own)?;
    }
    Ok(())
}

/// What was changed here counts here at once.
async fn take(
    app: &App,
    caller: &Caller,
    answered: &CommandOutcome<UserView>,
) -> Result<(), Problem> {
    match answered {
        CommandOutcome::Done(user) => app.people.take(&caller.workspace, user).await,
        CommandOutcome::Accepted(_) => Ok(()),
    }
}
