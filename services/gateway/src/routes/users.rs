//! `/users`: people and programs of the workspace. Owners and admins change them, and only owners change owners.

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use holdpoint_auth::{Right, Role};
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{DisableUser, GetUser, ListUsers, PutUser, UserView};
use holdpoint_contracts::run::Page;
use holdpoint_ids::{RoleName, UserName};

use crate::app::App;
use crate::auth::may::{Administer, May};
use crate::call::{Call, JsonBody};
use crate::command_outcome::CommandOutcome;
use crate::params::PageParams;
use crate::path::NoId;
use crate::problem::{ApiResult, JsonResult};

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/users", get(list).post(put))
        .route("/users/{name}", get(show).delete(disable))
}

async fn list(caller: May<Administer>, page: PageParams) -> JsonResult<Page<UserView>> {
    let PageParams { limit, cursor } = page;
    caller.query(ListUsers { limit, cursor }).await
}

async fn show(call: Call<Administer, UserName>) -> JsonResult<UserView> {
    call.caller.query(GetUser { name: call.id }).await
}

async fn put(call: Call<Administer, NoId, JsonBody<PutUser>>) -> ApiResult<Response> {
    let (caller, user) = (call.caller, call.body);
    guard_owners(&caller, &user.name, &user.roles).await?;
    let outcome = caller.command(call.key, user).await?;
    update_directory(&caller, &outcome).await?;
    Ok(outcome.with_status(StatusCode::CREATED))
}

async fn disable(call: Call<Administer, UserName>) -> ApiResult<impl IntoResponse> {
    let (caller, name) = (call.caller, call.id);
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
