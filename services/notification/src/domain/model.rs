//! State of the aggregates. Nothing here imports a rule or a command.

mod aggregate;
mod delivery;
mod event;
mod preferences;
mod watch;
mod webhook;

pub use aggregate::{Aggregate, Key, Secret};
pub(crate) use delivery::ERROR_CHARS_MAX;
pub use delivery::{AttemptReport, Delivery, DeliveryKey, DeliveryTarget, Phase, PlannedDelivery};
pub(crate) use event::erase_request_event;
pub use event::{
    EventKey, FanOutProgress, InboxEntry, NotificationEvent, Recipient, RequestLifecycle, Subject,
    SystemNotice,
};
pub(crate) use preferences::{DAY, merge_chat};
pub use preferences::{DeliveryRules, Preferences, QuietHours, masked_preferences};
pub use watch::{EndsFor, WATCHES_MAX, Watch};
pub use webhook::{
    CallOutcome, Subscription, WEBHOOKS_MAX, Webhook, WebhookConfig, WebhookState, check_webhook,
};
