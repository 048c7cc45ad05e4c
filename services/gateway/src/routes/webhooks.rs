//! `/webhooks`: what leaves by HTTP is signed with.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use holdpoint_auth::Right;
use holdpoint_contracts::notification::{ShowWebhookSecret, WebhookSecretView};

use crate::app::App;
use crate::caller::Caller;
use crate::params::Params;
use crate::problem::Refused;

pub(crate) fn routes() -> Router<App> {
    Router::new().route("/webhooks/secret", get(secret))
}

/// The secret that callbacks are signed with; made when it is first asked for or used.
async fn secret(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<Json<WebhookSecretView>, Refused> {
    params.only(&[])?;
    caller.may(Right::Administer)?;
    Ok(Json(app.ask(&caller, None, ShowWebhookSecret {}).await?))
}
