//! Replies to callers.

use holdpoint_contracts::notification::{
    AllRead, EventRecorded, NotificationView, Preferences, RunEndRecorded, WatchAdded, WatchView,
    WebhookAdded, WebhookSecretView, WebhookView,
};
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Reply {
    EventRecorded(EventRecorded),
    RunEndRecorded(RunEndRecorded),
    Notification(Box<NotificationView>),
    AllRead(AllRead),
    Secret(WebhookSecretView),
    Preferences(Preferences),
    WebhookAdded(Box<WebhookAdded>),
    /// A changed or removed webhook.
    Webhook(Box<WebhookView>),
    WatchAdded(Box<WatchAdded>),
    /// A watch that was removed.
    Watch(Box<WatchView>),
    /// No caller waits.
    Done,
}
