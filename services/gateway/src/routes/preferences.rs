//! `/preferences`: the notification preferences of the caller. Every user reads and changes only their own. A
//! narrowed token does neither, because a change outlasts it.

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use holdpoint_contracts::notification::{GetPreferences, Preferences, PutPreferences};

use crate::app::App;
use crate::auth::may::{InPerson, Look};
use crate::call::{Call, JsonBody};
use crate::path::NoId;
use crate::problem::{ApiResult, JsonResult};

pub(crate) fn routes() -> Router<App> {
    Router::new().route("/preferences", get(show).put(put))
}

async fn show(call: Call<InPerson<Look>>) -> JsonResult<Preferences> {
    let person = call.caller.claims.user.clone();
    call.caller.query(GetPreferences { person }).await
}

/// An absent field means its default. The answer to a chat address may be the only one that shows its secret.
/// So that command is never stored for later.
async fn put(call: Call<InPerson<Look>, NoId, JsonBody<Preferences>>) -> ApiResult<Response> {
    let (caller, key) = (call.caller, call.key);
    let command = PutPreferences {
        person: caller.claims.user.clone(),
        preferences: call.body,
    };
    let chat = command.preferences.channels.chat.as_ref();
    let answer = if chat.is_some_and(|chat| chat.url.is_some()) {
        caller.ask(key, command).await?.into_response()
    } else {
        caller.command(key, command).await?.into_response()
    };
    caller.app.zones.forget(&caller.claims);
    Ok(answer)
}
