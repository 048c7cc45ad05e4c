//! `/preferences`: how the caller wants to be told. Everybody sees and says their own and no other.
//! A narrowed token does neither: what it says would outlast it.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use holdpoint_auth::Right;
use holdpoint_contracts::notification::{GetPreferences, Preferences, PutPreferences};

use crate::app::App;
use crate::body::Body;
use crate::caller::Caller;
use crate::params::Params;
use crate::problem::ApiError;

pub(crate) fn routes() -> Router<App> {
    Router::new().route("/preferences", get(show).put(put))
}

async fn show(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<Json<Preferences>, ApiError> {
    caller.may(Right::Look)?;
    caller.in_person()?;
    params.only(&[])?;
    let person = caller.claims.user.clone();
    let query = GetPreferences { person };
    Ok(Json(app.bus.query(&caller.workspace, &query).await?))
}

/// What is left out is as for somebody who never said anything. Where a chat is named, the answer may be
/// the only one that ever shows its secret: so that is done now or not at all, and never kept for later.
async fn put(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    caller.may(Right::Look)?;
    caller.in_person()?;
    params.only(&[])?;
    let command = PutPreferences {
        person: caller.claims.user.clone(),
        preferences: body.json()?,
    };
    let chat = command.preferences.channels.chat.as_ref();
    if chat.is_some_and(|chat| chat.url.is_some()) {
        let answer = app.ask(&caller, body.key, command).await?;
        app.zones.forget(&caller.claims);
        return Ok(Json(answer).into_response());
    }
    let answered = app.command(&caller, body.key, command).await?;
    app.zones.forget(&caller.claims);
    Ok(answered.with_status(StatusCode::OK))
}
