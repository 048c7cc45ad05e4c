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
use holdpoint_contracts::{Command, IdempotencyKey};
use holdpoint_ids::WebhookId;
use serde::Deserialize;

use crate::app::App;
use crate::auth::may::{Administer, InPerson, May};
use crate::call::{Call, JsonBody, NoBody};
use crate::params::PageParams;
use crate::path::NoId;
use crate::problem::{ApiResult, JsonResult};
use crate::use_cases::watch;

type Administrator = InPerson<Administer>;

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
    call: Call<Administrator, NoId, JsonBody<WebhookBody>>,
) -> ApiResult<(StatusCode, Json<WebhookAdded>)> {
    let has_run_ends = has_run_ends(&call.body.events);
    let command = AddWebhook {
        id: WebhookId::fresh(),
        url: call.body.url,
        events: call.body.events,
        format: call.body.format,
    };
    let added = send_with_run_ends(&call.caller, has_run_ends, call.key, command).await?;
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
    call: Call<Administrator, WebhookId, JsonBody<ChangeBody>>,
) -> JsonResult<WebhookView> {
    let has_run_ends = has_run_ends(&call.body.events);
    let command = ChangeWebhook {
        id: call.id,
        url: call.body.url,
        events: call.body.events,
        format: call.body.format,
        enabled: call.body.enabled,
    };
    send_with_run_ends(&call.caller, has_run_ends, call.key, command).await
}

fn has_run_ends(events: &[String]) -> bool {
    events
        .iter()
        .any(|event| event == "*" || event.starts_with("run."))
}

/// Sends a command about a webhook. The executor is asked for all run ends before the command, so that no end falls
/// between (C-10). It is asked again afterwards: until then the notification service may have reported that no
/// webhook needs the ends.
async fn send_with_run_ends<C: Command + Sync>(
    caller: &May<Administrator>,
    has_run_ends: bool,
    key: Option<IdempotencyKey>,
    command: C,
) -> JsonResult<C::Reply> {
    watch_run_ends(caller, has_run_ends).await;
    let reply = caller.ask(key, command).await?;
    watch_run_ends(caller, has_run_ends).await;
    Ok(reply)
}

/// A failure only delays deliveries, as the notification service resends its desired state.
async fn watch_run_ends(caller: &May<Administrator>, has_run_ends: bool) {
    if has_run_ends
        && let Err(problem) = watch::watch_run_ends(&caller.app, caller, RunEndsOf::All).await
    {
        tracing::info!(%problem, "the executor does not report run ends yet; the notification service will ask for them");
    }
}

async fn show(call: Call<Administrator, WebhookId>) -> JsonResult<WebhookView> {
    call.caller.query(GetWebhook { id: call.id }).await
}

/// Oldest first.
async fn list(caller: May<Administrator>, page: PageParams) -> JsonResult<Page<WebhookView>> {
    let PageParams { limit, cursor } = page;
    caller.query(ListWebhooks { limit, cursor }).await
}

async fn remove(call: Call<Administrator, WebhookId>) -> ApiResult<StatusCode> {
    let Json(_removed) = call.caller.ask(None, RemoveWebhook { id: call.id }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Newest first.
async fn list_deliveries(
    call: Call<Administrator, WebhookId, NoBody, PageParams>,
) -> JsonResult<Page<DeliveryView>> {
    let PageParams { limit, cursor } = call.params;
    let query = ListWebhookDeliveries {
        webhook: call.id,
        limit,
        cursor,
    };
    call.caller.query(query).await
}

/// The secret that signs callbacks. It is created when it is first used or read.
async fn show_secret(call: Call<Administrator>) -> JsonResult<WebhookSecretView> {
    call.caller.ask(None, ShowWebhookSecret {}).await
}
