//! `/notifications`: what the caller was told. Everybody sees their own copies and no other.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::Decision;
use holdpoint_contracts::notification::{
    GetNotification, ListNotifications, NotificationView, ReadNotification,
};
use holdpoint_contracts::run::Page;
use holdpoint_ids::NotificationId;
use serde::Deserialize;
use serde_json::Value;

use super::requests;
use crate::app::App;
use crate::body::Body;
use crate::caller::{Caller, Named};
use crate::params::Params;
use crate::problem::Refused;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/notifications", get(list))
        .route("/notifications/{id}", get(show))
        .route("/notifications/{id}/read", post(read))
        .route("/notifications/{id}/respond", post(respond))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RespondBody {
    response: Value,
    #[serde(default)]
    version: Option<u64>,
}

async fn list(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<Json<Page<NotificationView>>, Refused> {
    caller.may(Right::Look)?;
    let params = params.only(&["unread", "limit", "cursor"])?;
    let query = ListNotifications {
        person: caller.claims.user.clone(),
        unread: params.read_as("unread")?.unwrap_or(false),
        limit: params.limit()?,
        cursor: params.read_as("cursor")?,
    };
    Ok(Json(app.bus.query(&caller.workspace, &query).await?))
}

async fn show(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<NotificationId>,
    params: Params,
) -> Result<Json<NotificationView>, Refused> {
    caller.may(Right::Look)?;
    params.only(&[])?;
    Ok(Json(own(&app, &caller, id).await?))
}

async fn own(app: &App, caller: &Caller, id: NotificationId) -> Result<NotificationView, Problem> {
    let person = caller.claims.user.clone();
    let query = GetNotification { person, id };
    app.bus.query(&caller.workspace, &query).await
}

async fn read(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<NotificationId>,
    params: Params,
    body: Body,
) -> Result<Response, Refused> {
    caller.may(Right::Look)?;
    params.only(&[])?;
    let command = ReadNotification { id };
    let answered = app.command(&caller, body.key, command).await?;
    Ok(answered.with_status(StatusCode::OK))
}

/// Answers the question that the notification is of, as `/requests/{id}/respond` does.
async fn respond(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<NotificationId>,
    params: Params,
    body: Body,
) -> Result<Response, Refused> {
    caller.may(Right::Decide)?;
    params.only(&[])?;
    let RespondBody { response, version } = body.json()?;
    let request = own(&app, &caller, id).await?.request.ok_or_else(|| {
        let detail = format!("`{id}` asks nothing: it is of no request");
        Problem::new(409, "not_a_request", detail)
    })?;
    let decision = Decision::Respond { answer: response };
    requests::decide(&app, &caller, body, (request, decision, version)).await
}
