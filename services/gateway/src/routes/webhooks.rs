//! `/webhooks`: programs that are notified of events, and the secret that signs callbacks. Owner and admin only.
//! A webhook outlasts the token that made it, so a narrowed token is refused.

use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use holdpoint_contracts::executor::RunEndsOf;
use holdpoint_contracts::notification::{
    AddWebhook, ChangeWebhook, DeliveryView, GetWebhook, ListWebhookDeliveries, ListWebhooks,
    RemoveWebhook, ShowWebhookSecret, WebhookAdded, WebhookFormat, WebhookSecretView, WebhookView,
};
use holdpoint_contracts::run::Page;
use holdpoint_ids::WebhookId;
use serde::Deserialize;

use crate::app::App;
use crate::auth::may::{Administer, InPerson, May};
use crate::body::JsonBody;
use crate::params::{NoParams, PageParams};
use crate::path::PathId;
use crate::problem::ApiResult;
use crate::use_cases::watch;

type Administrator = May<InPerson<Administer>>;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/webhooks", get(list).post(add))
        .route("/webhooks/secret", get(show_secret))
        .route("/webhooks/{id}", get(show).put(change).delete(remove))
        .route("/webhooks/{id}/deliveries", get(list_deliveries))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhookBody {
    url: String,
    events: Vec<String>,
    #[serde(default)]
    format: WebhookFormat,
}

/// Only this answer shows the secret, so the command is never stored for later.
async fn add(
    caller: Administrator,
    _: NoParams,
    body: JsonBody<WebhookBody>,
) -> ApiResult<(StatusCode, Json<WebhookAdded>)> {
    let WebhookBody {
        url,
        events,
        format,
    } = body.value;
    let has_run_ends = has_run_ends(&events);
    let command = AddWebhook {
        id: WebhookId::fresh(),
        url,
        events,
        format,
    };
    watch_run_ends(&caller, has_run_ends).await;
    let added = caller.ask(body.key, command).await?;
    watch_run_ends(&caller, has_run_ends).await;
    Ok((StatusCode::CREATED, added))
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

/// Replaces all of it except the secret, which is not shown.
async fn change(
    caller: Administrator,
    PathId(id): PathId<WebhookId>,
    _: NoParams,
    body: JsonBody<ChangeBody>,
) -> ApiResult<Json<WebhookView>> {
    let ChangeBody {
        url,
        events,
        format,
        enabled,
    } = body.value;
    let has_run_ends = has_run_ends(&events);
    let command = ChangeWebhook {
        id,
        url,
        events,
        format,
        enabled,
    };
    watch_run_ends(&caller, has_run_ends).await;
    let changed = caller.ask(body.key, command).await?;
    watch_run_ends(&caller, has_run_ends).await;
    Ok(changed)
}

fn has_run_ends(events: &[String]) -> bool {
    events
        .iter()
        .any(|event| event == "*" || event.starts_with("run."))
}

/// The executor reports all run ends from its commit of this on (C-10). It is asked before the command, so that no
/// end falls between. It is asked again afterwards: until then the notification service may have told it that no
/// webhook wants the ends. A failure only delays deliveries, as the notification service resends its desired state.
async fn watch_run_ends(caller: &Administrator, is_wanted: bool) {
    if is_wanted
        && let Err(problem) = watch::watch_run_ends(&caller.app, caller, RunEndsOf::All).await
    {
        tracing::info!(%problem, "the executor does not report run ends yet; the notification service will ask for them");
    }
}

async fn show(
    caller: Administrator,
    PathId(id): PathId<WebhookId>,
    _: NoParams,
) -> ApiResult<Json<WebhookView>> {
    caller.query(GetWebhook { id }).await
}

/// Oldest first.
async fn list(
    caller: Administrator,
    PageParams { limit, cursor }: PageParams,
) -> ApiResult<Json<Page<WebhookView>>> {
    caller.query(ListWebhooks { limit, cursor }).await
}

async fn remove(
    caller: Administrator,
    PathId(id): PathId<WebhookId>,
    _: NoParams,
) -> ApiResult<StatusCode> {
    let Json(_removed) = caller.ask(None, RemoveWebhook { id }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Newest first.
async fn list_deliveries(
    caller: Administrator,
    PathId(webhook): PathId<WebhookId>,
    PageParams { limit, cursor }: PageParams,
) -> ApiResult<Json<Page<DeliveryView>>> {
    let query = ListWebhookDeliveries {
        webhook,
        limit,
        cursor,
    };
    caller.query(query).await
}

/// The secret that signs callbacks. It is created when it is first used or read.
async fn show_secret(caller: Administrator, _: NoParams) -> ApiResult<Json<WebhookSecretView>> {
    caller.ask(None, ShowWebhookSecret {}).await
}
