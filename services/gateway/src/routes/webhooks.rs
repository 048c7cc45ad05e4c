//! `/webhooks`: programs that are told of what happens to requests, and what callbacks are signed with.
//! Owner and admin only.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::RunEndsOf;
use holdpoint_contracts::notification::{
    AddWebhook, ChangeWebhook, DeliveryView, GetWebhook, ListWebhookDeliveries, ListWebhooks,
    RemoveWebhook, ShowWebhookSecret, WebhookAdded, WebhookFormat, WebhookSecretView, WebhookView,
};
use holdpoint_contracts::run::Page;
use holdpoint_ids::WebhookId;
use serde::Deserialize;

use super::watches as watch;
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
    let has_ends = has_run_ends(&command.events);
    watch_run_ends(&app, &caller, has_ends).await;
    let added = app.ask(&caller, body.key, command).await?;
    watch_run_ends(&app, &caller, has_ends).await;
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
    let has_ends = has_run_ends(&command.events);
    watch_run_ends(&app, &caller, has_ends).await;
    let changed = app.ask(&caller, body.key, command).await?;
    watch_run_ends(&app, &caller, has_ends).await;
    Ok(Json(changed))
}

fn has_run_ends(events: &[String]) -> bool {
    events
        .iter()
        .any(|event| event == "*" || event.starts_with("run."))
}

/// The executor reports all ends of runs from its commit of this on. It is asked before the command, so that no
/// end falls between. It is asked again afterwards: until then the notification service may have told it that
/// no webhook wants the ends. A failure delays deliveries only, as the notification service resends its desired state.
async fn watch_run_ends(app: &App, caller: &Caller, is_wanted: bool) {
    if !is_wanted {
        return;
    }
    if let Err(problem) = watch::watch_run_ends(app, caller, RunEndsOf::All).await {
        tracing::info!(%problem, "the executor does not report run ends yet; the notification service will ask for them");
    }
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
