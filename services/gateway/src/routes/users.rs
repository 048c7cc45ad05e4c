//! `/users`: people and programs of the workspace. Owners and admins change them, and only owners change owners.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use holdpoint_auth::{Right, Role};
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{DisableUser, GetUser, ListUsers, PutUser, UserView};
use holdpoint_contracts::run::Page;
use holdpoint_ids::{RoleName, UserName};

use crate::app::App;
use crate::auth::may::{Administer, May};
use crate::body::JsonBody;
use crate::command_outcome::CommandOutcome;
use crate::params::{NoParams, PageParams};
use crate::path::PathId;
use crate::problem::ApiResult;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/users", get(list).post(put))
        .route("/users/{name}", get(show).delete(disable))
}

async fn list(
    caller: May<Administer>,
    PageParams { limit, cursor }: PageParams,
) -> ApiResult<Json<Page<UserView>>> {
    caller.query(ListUsers { limit, cursor }).await
}

async fn show(
    caller: May<Administer>,
    PathId(name): PathId<UserName>,
    _: NoParams,
) -> ApiResult<Json<UserView>> {
    caller.query(GetUser { name }).await
}

async fn put(caller: May<Administer>, _: NoParams, body: JsonBody<PutUser>) -> ApiResult<Response> {
    let user = body.value;
    guard_owners(&caller, &user.name, &user.roles).await?;
    let outcome = caller.command(body.key, user).await?;
    update_directory(&caller, &outcome).await?;
    Ok(outcome.with_status(StatusCode::CREATED))
}

async fn disable(
    caller: May<Administer>,
    PathId(name): PathId<UserName>,
    _: NoParams,
) -> ApiResult<impl IntoResponse> {
    guard_owners(&caller, &name, &[]).await?;
    let outcome = caller.command(None, DisableUser { name }).await?;
    update_directory(&caller, &outcome).await?;
    Ok(outcome)
}

/// # Errors
/// 403 for an administrator who changes an owner, or makes one.
async fn guard_owners(
    caller: &May<Administer>,
    name: &UserName,
    roles: &[RoleName],
) -> Result<(), Problem> {
    let is_owner = |role: &RoleName| role.as_str() == Role::Owner.as_str();
    let known = caller.app.people.known(&caller.workspace, name).await?;
    let was_owner = known.is_some_and(|user| user.roles.iter().any(is_owner));
    if was_owner || roles.iter().any(is_owner) {
        caller.may(Right::Own)?;
    }
    Ok(())
}

/// A change is effective at this gateway before its answer.
async fn update_directory(
    caller: &May<Administer>,
    outcome: &CommandOutcome<UserView>,
) -> Result<(), Problem> {
    match outcome {
        CommandOutcome::Done(user) => caller.app.people.take(&caller.workspace, user).await,
        CommandOutcome::Accepted(_) => Ok(()),
    }
}
