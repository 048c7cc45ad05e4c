//! The pure core: what happened, who is notified of it, and through which channels.
//!
//! It knows no clock, database or bus, and names what it lacks as a [`Need`]. Imports point only downward:
//! `decide` → `commands` → `rules` → `decision`, `input`, `effect`, `refusal`, `need` → `model`.

mod commands;
mod decide;
mod decision;
mod effect;
mod input;
mod model;
mod need;
mod refusal;
mod rules;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use commands::claim_delivery::PERSON_GONE;
pub use decision::{Change, Lookup, LookupFn, NotificationDomain, Outcome, Undecided};
pub(crate) use effect::ChangedInboxes;
pub use effect::{Effect, NewDeliveries, NewInboxEntries, Reply};
pub use input::Input;
pub use model::{
    Aggregate, AttemptReport, CallOutcome, Delivery, DeliveryKey, DeliveryRules, DeliveryTarget,
    EndsFor, EventKey, FanOutProgress, InboxEntry, Key, NotificationEvent, Phase, PlannedDelivery,
    Preferences, QuietHours, Recipient, RequestLifecycle, Secret, Subject, Subscription,
    SystemNotice, WATCHES_MAX, WEBHOOKS_MAX, Watch, Webhook, WebhookConfig, WebhookState,
    check_webhook, masked_preferences,
};
pub use need::{Fact, Need, Person};
pub use refusal::Refusal;
pub(crate) use rules::call_summary::call_summary;
pub use rules::channel_fallback::SETTLED;
pub use rules::contact_text::{contact_message, contact_title};
pub use rules::notification_text::{
    mention_message, mention_title, request_title, run_duration, run_end_message, run_end_title,
};
pub(crate) use rules::notification_text::{outcome_word, response_text};
pub use rules::notification_view::{asks_a_person, link, view};
pub(crate) use rules::plain_text::{clean, cut, field_label, line};
pub use rules::recipients::PAGE;
pub use rules::retry_schedule::TRIES_MAX;
