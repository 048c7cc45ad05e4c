//! The built-in tools.
//!
//! Owns the list of built-in tools and the parsing of their arguments. Each tool is a file below. Messages
//! of failures are stored and shown (S0-R5). A tool may put only its own text into them, the name of an
//! argument, an address of the step's author, or a number.

use std::sync::Arc;

use holdpoint_contracts::executor::{PatchContact, SearchContacts};
use holdpoint_contracts::handoff::OpenHold;
use holdpoint_contracts::steps::HTTP_QUEUE;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::tool::{Risk, Tool, ToolDefinition, ToolFailure};

mod change_tags;
mod create_task;
mod failed_response;
pub mod http_request;
mod http_tool;
mod log;
mod patch_contact;
mod search_contacts;
mod send_command;
pub mod send_email;
mod set_values;
mod update_contact;

pub(crate) use change_tags::ChangeTags;
pub(crate) use create_task::CreateTask;
pub use http_request::HttpRequest;
pub(crate) use http_tool::HttpTool;
pub(crate) use log::Log;
pub(crate) use search_contacts::FindContacts;
pub use send_command::{SendCommand, SendQuery, query_over, send_over};
pub use send_email::{MailTransport, SendEmail};
pub(crate) use set_values::SetValues;
pub(crate) use update_contact::UpdateContact;

/// Largest result in the step row, in bytes of JSON. A larger one fails the step.
pub const MAX_INLINE_RESULT: usize = 256 * 1024;

/// Status of a service that refuses the arguments. Every attempt would repeat it.
const REFUSED: u16 = 422;

/// Longest quote of another text in a message, in characters.
const MAX_QUOTE: usize = 200;

/// All tools of [`BUILT_IN`](holdpoint_contracts::tool::BUILT_IN), and the tools that are registered as an HTTP call.
#[must_use]
pub fn builtin(
    http: HttpRequest,
    email: SendEmail,
    patch_contact: SendCommand<PatchContact>,
    open_hold: SendCommand<OpenHold>,
    search: SendQuery<SearchContacts>,
) -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(Log),
        Arc::new(SetValues),
        Arc::new(http.clone()),
        Arc::new(email),
        Arc::new(ChangeTags {
            is_added: true,
            patch_contact: Arc::clone(&patch_contact),
        }),
        Arc::new(ChangeTags {
            is_added: false,
            patch_contact: Arc::clone(&patch_contact),
        }),
        Arc::new(UpdateContact { patch_contact }),
        Arc::new(FindContacts { search }),
        Arc::new(CreateTask { open_hold }),
        Arc::new(HttpTool {
            risk: Risk::Medium,
            is_idempotent: false,
            definition: ToolDefinition::default(),
            name: HTTP_QUEUE.to_owned(),
            http,
            target: None,
        }),
    ]
}

/// Parses the arguments of `tool`. Unknown ones are refused, so that a typing error does not silently
/// change the call.
///
/// # Errors
/// Code `invalid_args`. The message names the argument and what is allowed. It never quotes a value, which
/// may be a secret (S0-R5).
pub(crate) fn read_args<T: DeserializeOwned>(tool: &str, args: &Value) -> Result<T, ToolFailure> {
    if !args.is_object() {
        return Err(invalid_args(
            tool,
            "they must be an object with a name for every argument",
        ));
    }
    serde_path_to_error::deserialize(args).map_err(|error| {
        let path = error.path().to_string();
        let text = error.inner().to_string();
        invalid_args(tool, &describe_error(&path, &text))
    })
}

pub(crate) fn invalid_args(tool: &str, error: &str) -> ToolFailure {
    ToolFailure::new(
        "invalid_args",
        format!("Arguments of {tool} are wrong: {error}."),
    )
}

/// The first [`MAX_QUOTE`] characters of a text.
pub(crate) fn quote(text: &str) -> String {
    clean(text, MAX_QUOTE)
}

/// At most `max` characters, with blanks in place of control characters.
pub(crate) fn clean(text: &str, max: usize) -> String {
    text.chars()
        .take(max)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// Turns serde's text into a hint. serde quotes values in `invalid type: string "…", expected …`, so only
/// the part after the last `expected` is kept.
fn describe_error(path: &str, text: &str) -> String {
    if text.starts_with("missing field") {
        return format!("{text}; add it");
    }
    if text.starts_with("unknown field") {
        return format!("{}; rename or remove it", quote(text));
    }
    if text.starts_with("unknown variant") {
        let known = text.rsplit_once("expected ").map_or("", |(_, known)| known);
        return format!("`{}` must be {known}", quote(path));
    }
    match text.rsplit_once(", expected ") {
        Some((_, "a map")) => format!("`{}` must be an object", quote(path)),
        Some((_, expected)) => format!("`{}` must be {expected}", quote(path)),
        None => format!("`{}` has an unexpected value", quote(path)),
    }
}

#[cfg(test)]
mod tests;
