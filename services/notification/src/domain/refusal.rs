//! Every way to say no, and how it is told.

use holdpoint_contracts::notification::Watched;
use holdpoint_contracts::{FieldError, Problem};
use holdpoint_ids::{NotificationId, WebhookId};

use super::{WATCHES_MAX, WEBHOOKS_MAX};

/// Why something was not done.
#[derive(Debug, Clone, PartialEq)]
pub enum Refusal {
    /// The caller has no such notification; perhaps somebody else has.
    NoNotification(NotificationId),
    /// There is no such webhook, or no more.
    NoWebhook(WebhookId),
    /// The workspace has as many webhooks as there may be.
    TooManyWebhooks,
    /// The caller does not watch that.
    NoWatch(Watched),
    /// The caller watches as much as one may.
    TooManyWatches,
    /// A person wants to be told by a chat, and has not said where it is.
    NoChatAddress,
}

impl Refusal {
    /// How it is told.
    #[must_use]
    pub fn problem(&self) -> Problem {
        match self {
            Self::NoNotification(id) => {
                Problem::not_found(format!("you have no notification `{id}`"))
            }
            Self::NoWebhook(id) => Problem::not_found(format!("there is no webhook `{id}`")),
            Self::TooManyWebhooks => Problem::new(
                409,
                "too_many_webhooks",
                format!("there are {WEBHOOKS_MAX} webhooks, which is the most; remove one first"),
            ),
            Self::NoWatch(of) => Problem::not_found(format!("you do not follow `{of}`")),
            Self::TooManyWatches => Problem::new(
                409,
                "too_many_watches",
                format!("you follow {WATCHES_MAX} things, which is the most; unfollow one first"),
            ),
            Self::NoChatAddress => {
                let message = "channels.chat.url is not known: give the whole address of the chat";
                let wrong = FieldError::at("/channels/chat/url", message);
                Problem::invalid_body(message).with_errors(vec![wrong])
            }
        }
    }
}
