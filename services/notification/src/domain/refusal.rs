//! The rules that reject an input, and the problem that the caller receives.

use holdpoint_contracts::notification::Watched;
use holdpoint_contracts::{FieldError, Problem};
use holdpoint_ids::{NotificationId, WebhookId};

use super::model::{WATCHES_MAX, WEBHOOKS_MAX};

#[derive(Debug, Clone, PartialEq)]
pub enum Refusal {
    /// The caller has no such notification; another user may have it.
    NoNotification(NotificationId),
    /// The webhook does not exist or was removed.
    NoWebhook(WebhookId),
    /// The workspace is at the limit of webhooks.
    TooManyWebhooks,
    /// The caller does not watch that.
    NoWatch(Watched),
    /// The caller is at the limit of watches.
    TooManyWatches,
    /// Preferences name a chat whose address is unknown.
    NoChatAddress,
}

impl Refusal {
    #[must_use]
    pub fn problem(&self) -> Problem {
        match self {
            Self::NoNotification(id) => {
                Problem::not_found(format!("you have no notification `{id}`"))
            }
            Self::NoWebhook(id) => Problem::not_found(format!("webhook `{id}` not found")),
            Self::TooManyWebhooks => Problem::new(
                409,
                "too_many_webhooks",
                format!("the workspace has {WEBHOOKS_MAX} webhooks, the maximum; remove one first"),
            ),
            Self::NoWatch(of) => Problem::not_found(format!("you do not follow `{of}`")),
            Self::TooManyWatches => Problem::new(
                409,
                "too_many_watches",
                format!("you follow {WATCHES_MAX} things, the maximum; unfollow one first"),
            ),
            Self::NoChatAddress => {
                let message = "channels.chat.url is unknown: give the whole address of the chat";
                let error = FieldError::at("/channels/chat/url", message);
                Problem::invalid_body(message).with_errors(vec![error])
            }
        }
    }
}
