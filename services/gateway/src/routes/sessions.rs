//! `/sessions`: in which browsers somebody is signed in, and ending that. Everybody sees and ends their
//! own; administrators those of others by `?user=`. A narrowed token does neither: it is not the person.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{delete, get};
use axum::{Json, Router};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::run::Page;
use holdpoint_ids::UserName;

use crate::app::App;
use crate::caller::{Caller, PathId};
use crate::params::Params;
use crate::problem::{ApiError, database_away};
use crate::rights::grants;
use crate::store::sessions::own::{self, SessionId, SessionView};

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/sessions", get(list).delete(end_all))
        .route("/sessions/{id}", delete(end))
}

/// Newest first; there are never many.
async fn list(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<Json<Page<SessionView>>, ApiError> {
    let user = whose(&caller, params)?;
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
) -> Result<StatusCode, ApiError> {
    let user = whose(&caller, params)?;
    of_no_owner(&app, &caller, &user).await?;
    let whose = (&caller.workspace, &user);
    let ended = own::end(&app.writer, whose, Some(id)).await;
    if ended.map_err(database_away)? == 0 {
        let detail = format!("there is no session `{id}` of `{user}`");
        return Err(ApiError(Problem::not_found(detail)));
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn end_all(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<StatusCode, ApiError> {
    let user = whose(&caller, params)?;
    of_no_owner(&app, &caller, &user).await?;
    own::end(&app.writer, (&caller.workspace, &user), None)
        .await
        .map_err(database_away)?;
    Ok(StatusCode::NO_CONTENT)
}

/// The caller, or whom an administrator names.
fn whose(caller: &Caller, params: Params) -> Result<UserName, Problem> {
    let params = params.only(&["user"])?;
    let named: Option<UserName> = params.read_as("user")?;
    let user = named.unwrap_or_else(|| caller.claims.user.clone());
    let right = match user == caller.claims.user {
        true => Right::Look,
        false => Right::Administer,
    };
    caller.may(right)?;
    caller.in_person()?;
    Ok(user)
}

/// Sessions of owners are ended by owners, as their tokens are revoked by owners.
async fn of_no_owner(app: &App, caller: &Caller, user: &UserName) -> Result<(), Problem> {
    if *user == caller.claims.user {
        return Ok(());
    }
    let known = app.people.find(&caller.workspace, user).await?;
    if known.is_some_and(|known| grants(&known.roles, Right::Own)) {
        caller.may(Right::Own)?;
    }
    Ok(())
}
