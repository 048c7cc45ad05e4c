//! The log of a process, and its end by a panic.
//!
//! The log has one line per event and goes to standard error. Standard output is for data.
//!
//! The level comes from `HOLDPOINT_LOG` (or `RUST_LOG`), such as `info` or
//! `warn,holdpoint_executor=debug`. The format comes from `HOLDPOINT_LOG_FORMAT`, `text` or `json`.

mod vital;

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

pub use vital::Vital;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Default {
    /// For services.
    Info,
    /// For commands that show their own output.
    Warn,
}

/// Starts logging. A second call changes nothing.
pub fn start(default: Default) {
    let wanted = std::env::var("HOLDPOINT_LOG").or_else(|_| std::env::var("RUST_LOG"));
    let default = match default {
        Default::Info => "info,sqlx=warn,async_nats=warn,sea_orm_migration=warn",
        Default::Warn => "warn",
    };
    let filter = EnvFilter::new(wanted.as_deref().unwrap_or(default));
    let is_json = std::env::var("HOLDPOINT_LOG_FORMAT").is_ok_and(|format| format == "json");
    let builder = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    // An error means that logging was started before.
    let started = if is_json {
        builder.json().try_init()
    } else {
        builder.try_init()
    };
    drop(started);
}
