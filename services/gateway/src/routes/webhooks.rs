//! `/webhooks`: programs that are told of what happens to requests, and what callbacks are signed with.
//! Owner and admin only.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::notification::{
    AddWebhook, ChangeWebhook, DeliveryView, GetWebhook, ListWebhookDeliveries, ListWebhooks,
    RemoveWebhook, ShowWebhookSecret, WebhookAdded, WebhookFormat, WebhookSecretView, WebhookView,
};
use holdpoint_contracts::run::Page;
use holdpoint_ids::WebhookId;
use serde::Deserialize;

use crate::app::App;
use crate::body::Body;
use crate::caller::{Caller, PathId};
use crate::params::Params;
use crate::problem::ApiError;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/webhooks", get(list).post(add))
        .route("/webhooks/secret", get(secret))
        .route("/webhooks/{id}", get(show).put(change).delete(remove))
        .route("/webhooks/{id}/deliveries", get(deliveries))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhookBody {
    url: String,
    events: Vec<String>,
    #[serde(default)]
    format: WebhookFormat,
}

/// A webhook outlasts the token that made it, so a narrowed token has no say in it.
fn may(caller: &Caller) -> Result<(), Problem> {
    caller.may(Right::Administer)?;
    caller.in_person()
}

/// The only answer that ever shows its secret: so it is done now or not at all, and never kept for later.
async fn add(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    body: Body,
) -> Result<(StatusCode, Json<WebhookAdded>), ApiError> {
    may(&caller)?;
    params.only(&[])?;
    let WebhookBody {
        url,
        events,
        format,
    } = body.json()?;
    let command = AddWebhook {
        id: WebhookId::fresh(),
        url,
        events,
        format,
    };
    let added = app.ask(&caller, body.key, command).await?;
    Ok((StatusCode::CREATED, Json(added)))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeBody {
    url: String,
    events: Vec<String>,
    #[serde(default)]
    format: WebhookFormat,
    #[serde(default = "yes")]
    enabled: bool,
}

const fn yes() -> bool {
    true
}

/// All of it is as the body says; its secret stays, and is not shown.
async fn change(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId<WebhookId>,
    params: Params,
    body: Body,
) -> Result<Json<WebhookView>, ApiError> {
    may(&caller)?;
    params.only(&[])?;
    let ChangeBody {
        url,
        events,
        format,
        enabled,
    } = body.json()?;
    let command = ChangeWebhook {
        id,
        url,
        events,
        format,
        enabled,
    };
    Ok(Json(app.ask(&caller, body.key, command).await?))
}

async fn show(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId<WebhookId>,
    params: Params,
) -> Result<Json<WebhookView>, ApiError> {
    may(&caller)?;
    params.only(&[])?;
    let query = GetWebhook { id };
    Ok(Json(app.bus.query(&caller.workspace, &query).await?))
}

/// Oldest first.
async fn list(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<Json<Page<WebhookView>>, ApiError> {
    may(&caller)?;
    let params = params.only(&["limit", "cursor"])?;
    let query = ListWebhooks {
        limit: params.limit()?,
        cursor: params.read_as("cursor")?,
    };
    Ok(Json(app.bus.query(&caller.workspace, &query).await?))
}

async fn remove(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId<WebhookId>,
    params: Params,
) -> Result<StatusCode, ApiError> {
    may(&caller)?;
    params.only(&[])?;
    app.ask(&caller, None, RemoveWebhook { id }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Newest first.
async fn deliveries(
    State(app): State<App>,
    caller: Caller,
    PathId(webhook): PathId<WebhookId>,
    params: Params,
) -> Result<Json<Page<DeliveryView>>, ApiError> {
    may(&caller)?;
    let params = params.only(&["limit", "cursor"])?;
    let query = ListWebhookDeliveries {
        webhook,
        limit: params.limit()?,
        cursor: params.read_as("cursor")?,
    };
    Ok(Json(app.bus.query(&caller.workspace, &query).await?))
}

/// The secret that callbacks are signed with; made when it is first asked for or used.
async fn secret(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<Json<WebhookSecretView>, ApiError> {
    params.only(&[])?;
    may(&caller)?;
    Ok(Json(app.ask(&caller, None, ShowWebhookSecret {}).await?))
}
