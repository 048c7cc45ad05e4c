//! The outcome of a hold that stands alone, posted to the address that it was asked with (M-6), signed
//! as Standard Webhooks says.

use holdpoint_auth::WebhookSecret;
use holdpoint_contracts::instant;
use holdpoint_contracts::notification::RequestEvent;
use serde_json::{Value, json};

use super::post::Letter;
use super::{Pool, later, never};
use crate::domain::{DeliveryKey, Input, Report};
use crate::store::{self, DeliveryPayload, FeedPage};

impl Pool {
    pub(super) async fn call_back(&self, key: &DeliveryKey, parcel: &DeliveryPayload) -> Report {
        let FeedPage::Request { note, .. } = &parcel.of else {
            return never("The end of a run has no address to be called.");
        };
        let fact = &note.fact;
        let address = fact.request.callback.as_deref().unwrap_or_default();
        let Some(secret) = self.secret(key).await else {
            return later("What callbacks are signed with could not be read.");
        };
        let body = outcome(fact).to_string();
        let letter = Letter {
            what: "callback",
            id: key.stable_id(),
            address,
            secret: &secret,
            body,
        };
        self.post(&letter).await
    }

    /// Made when it is first used.
    async fn secret(&self, key: &DeliveryKey) -> Option<WebhookSecret> {
        if let Some(text) = self.stored_secret(key).await {
            return WebhookSecret::read(&text).ok();
        }
        let input = Input::Secret {
            workspace: key.workspace.clone(),
            fresh: WebhookSecret::fresh().write(),
        };
        if !self.handle.submit(vec![input]).await {
            return None;
        }
        WebhookSecret::read(&self.stored_secret(key).await?).ok()
    }

    async fn stored_secret(&self, key: &DeliveryKey) -> Option<String> {
        let found = store::secret(&self.readers, &key.workspace).await;
        found
            .inspect_err(|error| tracing::warn!(%error, "a webhook secret cannot be read"))
            .ok()?
    }
}

/// `{id, outcome, data, by, at}`, and `asks_again` where it asked an earlier hold again: whoever is called
/// back may know only that one.
fn outcome(fact: &RequestEvent) -> Value {
    let mut body = json!({
        "id": fact.id,
        "outcome": fact.request.outcome,
        "data": fact.request.response,
        "by": fact.request.decided_by,
        "at": instant::write(fact.at),
    });
    if let (Some(before), Some(fields)) = (fact.request.asks_again, body.as_object_mut()) {
        fields.insert("asks_again".to_owned(), json!(before));
    }
    body
}
