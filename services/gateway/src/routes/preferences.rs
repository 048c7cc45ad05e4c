//! `/preferences`: the notification preferences of the caller. Every user reads and changes only their own. A
//! narrowed token does neither, because a change outlasts it.

use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use holdpoint_contracts::notification::{GetPreferences, Preferences, PutPreferences};

use crate::app::App;
use crate::auth::may::{InPerson, Look, May};
use crate::body::JsonBody;
use crate::params::NoParams;
use crate::problem::ApiResult;

pub(crate) fn routes() -> Router<App> {
    Router::new().route("/preferences", get(show).put(put))
}

async fn show(caller: May<InPerson<Look>>, _: NoParams) -> ApiResult<Json<Preferences>> {
    let person = caller.claims.user.clone();
    caller.query(GetPreferences { person }).await
}

/// An absent field means its default. The answer to a chat address may be the only one that shows its secret.
/// So that command is never stored for later.
async fn put(
    caller: May<InPerson<Look>>,
    _: NoParams,
    body: JsonBody<Preferences>,
) -> ApiResult<Response> {
    let command = PutPreferences {
        person: caller.claims.user.clone(),
        preferences: body.value,
    };
    let chat = command.preferences.channels.chat.as_ref();
    let answer = if chat.is_some_and(|chat| chat.url.is_some()) {
        caller.ask(body.key, command).await?.into_response()
    } else {
        caller.command(body.key, command).await?.into_response()
    };
    caller.app.zones.forget(&caller.claims);
    Ok(answer)
}
