//! `log {message, level?}`: writes a line to the log of the worker's process.
//!
//! Owns only that line. It must have no other effect.

use serde::Deserialize;
use serde_json::json;

use super::{quote, read_args};
use crate::tool::{BoxFuture, Risk, Tool, ToolCall, ToolResult, ToolSuccess};

/// The tool `log`. The message goes to the log with run and step, and is the result's data.
pub(crate) struct Log;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    message: String,
    #[serde(default)]
    level: Level,
    /// The executor uses it to decide about retries.
    #[serde(default, rename = "idempotent")]
    _idempotent: bool,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "snake_case")]
enum Level {
    Debug,
    #[default]
    Info,
    Warn,
    Error,
}

impl Tool for Log {
    fn name(&self) -> &'static str {
        "log"
    }

    fn risk(&self) -> Risk {
        Risk::Medium
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let args: Args = read_args("log", &call.dispatch.args)?;
            let (run, step, said) = (call.dispatch.run, &call.dispatch.step, &args.message);
            // `?said` escapes line breaks, so that a message cannot forge a log line.
            match args.level {
                Level::Debug => tracing::debug!(%run, step, ?said, "agent log"),
                Level::Info => tracing::info!(%run, step, ?said, "agent log"),
                Level::Warn => tracing::warn!(%run, step, ?said, "agent log"),
                Level::Error => tracing::error!(%run, step, ?said, "agent log"),
            }
            Ok(ToolSuccess {
                description: format!("Logged \"{}\"", quote(said)),
                data: json!({ "message": said }),
            })
        })
    }
}
