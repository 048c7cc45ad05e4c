//! One file per command, or for a few that belong together.

pub(crate) mod add_webhook;
pub(crate) mod change_webhook;
pub(crate) mod claim_delivery;
pub(crate) mod put_preferences;
pub(crate) mod read_notifications;
pub(crate) mod record_attempt;
pub(crate) mod record_call;
pub(crate) mod record_contact_events;
pub(crate) mod record_request_events;
pub(crate) mod record_run_ends;
pub(crate) mod remove_webhook;
pub(crate) mod show_webhook_secret;
pub(crate) mod unwatch;
pub(crate) mod watch;
pub(crate) mod watch_run_ends;
