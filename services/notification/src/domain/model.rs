//! State of the aggregates. Nothing here imports a rule or a command.

mod aggregate;
mod delivery;
mod event;
mod inbox_entry;
mod preferences;
mod recipient;
mod watch;
mod webhook;

pub use aggregate::{Aggregate, Key, Secret};
pub(crate) use delivery::ERROR_CHARS_MAX;
pub use delivery::{AttemptReport, Delivery, DeliveryKey, DeliveryTarget, Phase, PlannedDelivery};
pub use event::{
    EventKey, FanOutProgress, NotificationEvent, RequestLifecycle, Subject, SystemNotice,
};
pub use inbox_entry::InboxEntry;
pub(crate) use preferences::{DAY, merge_chat};
pub use preferences::{DeliveryRules, Preferences, QuietHours, masked_preferences};
pub use recipient::Recipient;
pub use watch::{EndsFor, WATCHES_MAX, Watch};
pub use webhook::{
    CallOutcome, Subscription, WEBHOOKS_MAX, Webhook, WebhookConfig, WebhookState, check_webhook,
};
