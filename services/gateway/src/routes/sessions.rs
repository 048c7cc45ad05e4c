//! `/sessions`: the browsers in which a user is signed in. Users read and end their own sessions, and
//! administrators those of others with `?user=`. A narrowed token does neither, as it does not prove the person.

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::routing::{delete, get};
use axum::{Json, Router};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::run::Page;
use holdpoint_ids::UserName;

use crate::app::App;
use crate::auth::caller::Caller;
use crate::params::Params;
use crate::path::PathId;
use crate::problem::{ApiError, ApiResult, JsonResult};
use crate::store::sessions::{self, SessionId, SessionView};

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/sessions", get(list).delete(end_all))
        .route("/sessions/{id}", delete(end))
}

/// Newest first, without pages.
async fn list(selected: SelectedUser) -> JsonResult<Page<SessionView>> {
    let SelectedUser { app, caller, user } = selected;
    let holder = (&caller.workspace, &user);
    let items = sessions::list(&app.readers, holder, None, app.clock.now()).await?;
    Ok(Json(items.into()))
}

async fn end(selected: SelectedUser, PathId(id): PathId<SessionId>) -> ApiResult<StatusCode> {
    let SelectedUser { app, caller, user } = selected;
    caller.guard_owner(&app, &user).await?;
    let holder = (&caller.workspace, &user);
    if sessions::end_own(&app.writer, holder, Some(id)).await? == 0 {
        let detail = format!("session `{id}` of `{user}` not found");
        return Err(ApiError(Problem::not_found(detail)));
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn end_all(selected: SelectedUser) -> ApiResult<StatusCode> {
    let SelectedUser { app, caller, user } = selected;
    caller.guard_owner(&app, &user).await?;
    sessions::end_own(&app.writer, (&caller.workspace, &user), None).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The caller, or the user that an administrator names.
struct SelectedUser {
    app: App,
    caller: Caller,
    user: UserName,
}

impl FromRequestParts<App> for SelectedUser {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let caller = Caller::from_request_parts(parts, app).await?;
        let params = Params::read(&parts.uri)?.only(&["user"])?;
        let named: Option<UserName> = params.read_as("user")?;
        let user = named.unwrap_or_else(|| caller.claims.user.clone());
        let right = if user == caller.claims.user {
            Right::Look
        } else {
            Right::Administer
        };
        caller.may(right)?;
        caller.in_person()?;
        let app = app.clone();
        Ok(Self { app, caller, user })
    }
}
