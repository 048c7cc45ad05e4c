//! `update_contact {set, contact?}`: changes fields of a contact by a merge patch (RFC 7396).
//!
//! Owns the parsing of the arguments.

use holdpoint_contracts::executor::PatchContact;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::patch_contact::{ContactChange, patch_contact};
use super::send_command::SendCommand;
use super::{invalid_args, quote, read_args};
use crate::tool::{BoxFuture, Risk, Tool, ToolCall, ToolResult, ToolSuccess};

const NAME: &str = "update_contact";

pub(crate) struct UpdateContact {
    pub(crate) patch_contact: SendCommand<PatchContact>,
}

impl UpdateContact {
    async fn update(&self, call: &ToolCall) -> ToolResult {
        let args: Args = read_args(NAME, &call.dispatch.args)?;
        if args.set.is_empty() {
            return Err(invalid_args(
                NAME,
                "`set` is empty; name at least one field to set, or null to remove it",
            ));
        }
        if args.set.contains_key("id") {
            return Err(invalid_args(
                NAME,
                "`set.id` cannot be set, the id of a contact never changes; remove it",
            ));
        }
        let change = ContactChange {
            contact: args.contact,
            patch: args.set.clone(),
            ..ContactChange::default()
        };
        let contact = patch_contact(&self.patch_contact, call, change).await?.id;
        let fields: Vec<String> = args.set.keys().map(|field| quote(field)).collect();
        Ok(ToolSuccess {
            description: format!("Contact {contact} updated: {}", fields.join(", ")),
            data: json!({ "contact": contact, "set": args.set }),
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    set: Map<String, Value>,
    contact: Option<String>,
    /// The executor uses it to decide about retries.
    #[serde(default, rename = "idempotent")]
    _idempotent: bool,
}

impl Tool for UpdateContact {
    fn name(&self) -> &'static str {
        NAME
    }

    fn risk(&self) -> Risk {
        Risk::Medium
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(self.update(call))
    }
}
