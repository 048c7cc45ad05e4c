//! The outcome of a hold that stands alone, posted to the address that it was asked with (M-6), signed
//! as Standard Webhooks says.

use holdpoint_auth::WebhookSecret;
use holdpoint_contracts::instant;
use holdpoint_targets::refusal;
use reqwest::StatusCode;
use reqwest::header::CONTENT_TYPE;
use serde_json::json;
use url::Url;

use super::{Pool, later, never};
use crate::domain::{DeliveryKey, Input, Report};
use crate::store::{self, Parcel};

impl Pool {
    /// Redirects are not followed, and nothing of the answer is read but its status.
    pub(super) async fn call_back(&self, key: &DeliveryKey, parcel: &Parcel) -> Report {
        let fact = &parcel.note.fact;
        let address = fact.request.callback.as_deref().unwrap_or_default();
        let Ok(url) = Url::parse(address) else {
            return never("The callback is no address.");
        };
        if let Err(refused) = self.outside.targets.check(&url) {
            return never(&format!("The callback is not called: {refused}."));
        }
        let Some(secret) = self.secret(key).await else {
            return later("What callbacks are signed with could not be read.");
        };
        let body = json!({
            "id": fact.id,
            "outcome": fact.request.outcome,
            "data": fact.request.response,
            "by": fact.request.decided_by,
            "at": instant::write(fact.at),
        })
        .to_string();
        let (id, timestamp) = (key.stable_id(), self.clock.now().timestamp());
        let Ok(signature) = secret.sign(&id, timestamp, &body) else {
            return never("The callback could not be signed.");
        };
        let request = self
            .client
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", signature)
            .body(body);
        match request.send().await {
            Ok(answer) => verdict(answer.status()),
            Err(error) => match refusal(&error) {
                Some(refused) => never(&format!("The callback is not called: {refused}.")),
                None if error.is_timeout() => later("The callback did not answer in time."),
                None => later("The callback could not be reached."),
            },
        }
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

fn verdict(status: StatusCode) -> Report {
    let code = status.as_u16();
    if status.is_success() {
        return Report::Sent {
            receipt: format!("HTTP {code}"),
        };
    }
    let error = format!("The callback answered {code}.");
    if status == StatusCode::GONE {
        never(&error)
    } else {
        later(&error)
    }
}
