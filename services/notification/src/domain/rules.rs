//! One file per rule. Rules import no command.

pub(crate) mod call_summary;
pub(crate) mod channel_fallback;
pub(crate) mod contact_text;
pub(crate) mod context_summary;
pub(crate) mod digest;
pub(crate) mod fan_out;
pub(crate) mod notification_text;
pub(crate) mod notification_view;
pub(crate) mod plain_text;
pub(crate) mod quiet_hours;
pub(crate) mod recipients;
pub(crate) mod retry_schedule;
pub(crate) mod webhook_backlog;
pub(crate) mod webhook_notices;
