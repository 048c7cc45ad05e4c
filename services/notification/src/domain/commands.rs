//! One file per command, or for a few that belong together.

pub(crate) mod administer_webhooks;
pub(crate) mod claim_delivery;
pub(crate) mod put_preferences;
pub(crate) mod read_notifications;
pub(crate) mod record_attempt;
pub(crate) mod record_call;
pub(crate) mod record_request_events;
pub(crate) mod record_run_ends;
pub(crate) mod watch;
