//! The callback of a standalone hold: its outcome, signed as Standard Webhooks requires (M-6).

use holdpoint_auth::WebhookSecret;
use holdpoint_contracts::instant;
use holdpoint_contracts::notification::RequestEvent;
use serde_json::{Value, json};

use super::signed_request::SignedRequest;
use super::{Pool, later, never};
use crate::domain::{AttemptReport, DeliveryKey, Input};
use crate::store::{self, DeliveryPayload};

impl Pool {
    pub(super) async fn call_back(
        &self,
        key: &DeliveryKey,
        payload: &DeliveryPayload,
    ) -> AttemptReport {
        let Some(event) = payload.event.as_request() else {
            return never("Only a request has a callback.");
        };
        let address = event.request.callback.as_deref().unwrap_or_default();
        let Some(secret) = self.secret(key).await else {
            return later("The signing key of callbacks could not be read.");
        };
        let body = outcome(event).to_string();
        let request = SignedRequest {
            what: "callback",
            id: key.stable_id(),
            address,
            secret: &secret,
            body,
        };
        self.post(&request).await
    }

    /// Made when it is first used.
    async fn secret(&self, key: &DeliveryKey) -> Option<WebhookSecret> {
        if let Some(text) = self.stored_secret(key).await {
            return WebhookSecret::read(&text).ok();
        }
        let input = Input::ShowSecret {
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

/// `{id, outcome, data, by, at}`. `asks_again` names the earlier hold that it repeats: the receiver may know
/// only that one.
fn outcome(event: &RequestEvent) -> Value {
    let mut body = json!({
        "id": event.id,
        "outcome": event.request.outcome,
        "data": event.request.response,
        "by": event.request.decided_by,
        "at": instant::write(event.at),
    });
    if let (Some(before), Some(fields)) = (event.request.asks_again, body.as_object_mut()) {
        fields.insert("asks_again".to_owned(), json!(before));
    }
    body
}
