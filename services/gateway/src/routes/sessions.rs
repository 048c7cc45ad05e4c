//! `/sessions`: the browsers in which a user is signed in. Users read and end their own sessions, and
//! administrators those of others with `?user=`. A narrowed token does neither, as it does not prove the person.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{delete, get};
use axum::{Json, Router};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::run::Page;
use holdpoint_ids::UserName;

use crate::app::App;
use crate::auth::caller::Caller;
use crate::auth::token_scope::grants;
use crate::params::Params;
use crate::path::PathId;
use crate::problem::{ApiError, ApiResult, database_away};
use crate::store::sessions::own::{self, SessionId, SessionView};

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/sessions", get(list).delete(end_all))
        .route("/sessions/{id}", delete(end))
}

/// Newest first, without pages.
async fn list(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> ApiResult<Json<Page<SessionView>>> {
    let user = select_user(&caller, params)?;
    let whose = (&caller.workspace, &user);
    let items = own::list(&app.readers, whose, None, app.clock.now())
        .await
        .map_err(database_away)?;
    Ok(Json(Page {
        items,
        next_cursor: None,
    }))
}

async fn end(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId<SessionId>,
    params: Params,
) -> ApiResult<StatusCode> {
    let user = select_user(&caller, params)?;
    guard_owner(&app, &caller, &user).await?;
    let whose = (&caller.workspace, &user);
    let ended = own::end(&app.writer, whose, Some(id)).await;
    if ended.map_err(database_away)? == 0 {
        let detail = format!("session `{id}` of `{user}` not found");
        return Err(ApiError(Problem::not_found(detail)));
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn end_all(State(app): State<App>, caller: Caller, params: Params) -> ApiResult<StatusCode> {
    let user = select_user(&caller, params)?;
    guard_owner(&app, &caller, &user).await?;
    own::end(&app.writer, (&caller.workspace, &user), None)
        .await
        .map_err(database_away)?;
    Ok(StatusCode::NO_CONTENT)
}

/// The caller, or the user that an administrator names.
fn select_user(caller: &Caller, params: Params) -> Result<UserName, Problem> {
    let params = params.only(&["user"])?;
    let named: Option<UserName> = params.read_as("user")?;
    let user = named.unwrap_or_else(|| caller.claims.user.clone());
    let right = if user == caller.claims.user {
        Right::Look
    } else {
        Right::Administer
    };
    caller.may(right)?;
    caller.in_person()?;
    Ok(user)
}

/// # Errors
/// 403 for an administrator who ends a session of an owner.
async fn guard_owner(app: &App, caller: &Caller, user: &UserName) -> Result<(), Problem> {
    if *user == caller.claims.user {
        return Ok(());
    }
    let known = app.people.find(&caller.workspace, user).await?;
    if known.is_some_and(|known| grants(&known.roles, Right::Own)) {
        caller.may(Right::Own)?;
    }
    Ok(())
}
