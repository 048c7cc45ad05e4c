//! One notification to a person's own chat, and how what it told of ended.

use holdpoint_auth::WebhookSecret;

use super::post::Letter;
use super::webhook::body;
use super::{BARRED, Pool, dropped, never, unread};
use crate::domain::{DeliveryKey, GONE, OVER, Report};
use crate::store::{self, DeliveryPayload, FeedPage, may_look};

impl Pool {
    /// Not to somebody who was disabled meanwhile, and not of what is over: but that it is.
    pub(super) async fn chat(&self, key: &DeliveryKey, parcel: &DeliveryPayload) -> Report {
        let Some(person) = parcel.person.as_ref().filter(|person| person.active) else {
            return dropped(GONE);
        };
        if parcel.of.is_void() {
            return dropped(OVER);
        }
        if matches!(parcel.of, FeedPage::End(_)) && !may_look(&person.roles) {
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
            return never("What the chat is signed with cannot be read.");
        };
        let base = self.outside.public_url.known().and_then(Option::as_deref);
        let letter = Letter {
            what: "chat",
            id: key.stable_id(),
            address,
            secret: &secret,
            body: body(chat.format, &key.workspace, &parcel.of, base).to_string(),
        };
        self.post(&letter).await
    }
}
