//! One notification to a person's own chat, and the end of its request.

use holdpoint_auth::WebhookSecret;

use super::signed_request::SignedRequest;
use super::webhook::body;
use super::{BARRED, Pool, dropped, never, unread};
use crate::domain::{AttemptReport, DeliveryKey, PERSON_GONE, SETTLED};
use crate::store::{self, DeliveryPayload, may_look};

impl Pool {
    /// Dropped if the person was disabled in the meantime, or if the request needs no action any more.
    pub(super) async fn chat(&self, key: &DeliveryKey, payload: &DeliveryPayload) -> AttemptReport {
        let Some(person) = payload.person.as_ref().filter(|person| person.active) else {
            return dropped(PERSON_GONE);
        };
        if payload.is_void() {
            return dropped(SETTLED);
        }
        if payload.event.as_run_end().is_some() && !may_look(&person.roles) {
            return dropped(BARRED);
        }
        let said = store::preferences(&self.readers, &key.workspace, &person.name).await;
        let said = match said {
            Ok(said) => said.unwrap_or_default(),
            Err(error) => return unread("preferences", &error),
        };
        let chat = said.channels.chat.as_ref();
        let known = chat.and_then(|chat| Some((chat, chat.url.as_deref()?)));
        let Some((chat, address)) = known else {
            return never("The person has no chat any more.");
        };
        let secret = chat.secret.as_deref().unwrap_or_default();
        let Ok(secret) = WebhookSecret::read(secret) else {
            return never("The signing key of the chat cannot be read.");
        };
        let base = self.outside.public_url.known().and_then(Option::as_deref);
        let request = SignedRequest {
            what: "chat",
            id: key.stable_id(),
            address,
            secret: &secret,
            body: body(chat.format, &key.workspace, &payload.event, base).to_string(),
        };
        self.post(&request).await
    }
}
