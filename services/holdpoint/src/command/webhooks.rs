//! `webhooks`: addresses that are called on events of requests.

use holdpoint_contracts::notification::{DeliveryView, WebhookAdded, WebhookView};
use serde_json::json;

use super::short_id::Listed;
use super::{ClientCommand, Session, cells, instant, page_query};
use crate::cli::arguments::ById;
use crate::cli::notifications::WebhooksCommand;
use crate::client::{Body, Method};
use crate::exit::ExitKind;

impl ClientCommand for WebhooksCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<ExitKind> {
        match self {
            Self::List(page) => {
                let heading = ["WEBHOOK", "STATUS", "FORMAT", "EVENTS", "URL", "LAST ERROR"];
                let query = page_query(&page);
                session.list("webhooks", &query, heading, webhook_row).await
            }
            Self::Add {
                address,
                events,
                format,
            } => {
                let body = json!({ "url": address, "events": events, "format": format });
                let text = |added: &WebhookAdded| {
                    let (id, secret) = (added.webhook.id, &added.secret);
                    format!("webhook  {id}\nsecret   {secret}   (shown once)")
                };
                session.post("webhooks", &body, text).await
            }
            Self::Enable(webhook) => set_enabled(session, &webhook, true).await,
            Self::Disable(webhook) => set_enabled(session, &webhook, false).await,
            Self::Deliveries { webhook, page } => {
                let webhook = session.path(Listed::Webhooks, &webhook.id).await?;
                let path = format!("{webhook}/deliveries");
                let heading = [
                    "SINCE",
                    "NOTIFICATION",
                    "STATE",
                    "TRIES",
                    "NEXT",
                    "LAST ERROR",
                ];
                let query = page_query(&page);
                session.list(&path, &query, heading, delivery_row).await
            }
            Self::Remove(webhook) => {
                let id = session.whole_id(Listed::Webhooks, &webhook.id).await?;
                session.delete("webhooks", &id, "removed").await
            }
        }
    }
}

/// Replaces the webhook, because the API has no command for one field.
async fn set_enabled(session: &Session, webhook: &ById, enabled: bool) -> anyhow::Result<ExitKind> {
    let path = session.path(Listed::Webhooks, &webhook.id).await?;
    let current: Body<WebhookView> = session.client.get(&path, &[]).await?;
    let WebhookView {
        url,
        events,
        format,
        ..
    } = current.value;
    let body = json!({ "url": url, "events": events, "format": format, "enabled": enabled });
    let saved = session.client.send_json(Method::PUT, &path, &body).await?;
    session.show(&saved, |webhook: &WebhookView| {
        let status = webhook.status.as_str();
        format!("{}  {status}  {}", webhook.id, webhook.url)
    })
}

fn webhook_row(it: &WebhookView) -> [String; 6] {
    let events = it.events.join(" ");
    cells![it.id, it.status, it.format, events, it.url, it.last_error]
}

fn delivery_row(it: &DeliveryView) -> [String; 6] {
    let (at, next_at) = (instant(it.at), it.next_at.map(instant));
    cells![
        at,
        it.notification,
        it.state,
        it.attempts,
        next_at,
        it.last_error
    ]
}
