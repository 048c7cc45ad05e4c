//! `add_tag` and `remove_tag {tag | tags, contact?}`: change single tags of a contact.
//!
//! Owns the parsing of the arguments. It must not read the tags first: the executor changes them in one decision.

use holdpoint_contracts::contact::TagChange;
use holdpoint_contracts::executor::PatchContact;
use serde::Deserialize;
use serde_json::{Value, json};

use super::patch_contact::{ContactChange, patch_contact};
use super::send_command::SendCommand;
use super::{invalid_args, quote, read_args};
use crate::tool::{BoxFuture, Risk, Tool, ToolCall, ToolResult, ToolSuccess};

pub(crate) struct ChangeTags {
    /// `add_tag` or `remove_tag`.
    pub(crate) is_added: bool,
    pub(crate) patch_contact: SendCommand<PatchContact>,
}

impl ChangeTags {
    async fn change(&self, call: &ToolCall) -> ToolResult {
        let args: Args = read_args(self.name(), &call.dispatch.args)?;
        let tags: Vec<String> = args.tag.into_iter().chain(args.tags).collect();
        if tags.is_empty() {
            let error = "it names no tag; name one in `tag`, or several in `tags`";
            return Err(invalid_args(self.name(), error));
        }
        let named = quote(&format!("\"{}\"", tags.join("\", \"")));
        let (tags, effect) = if self.is_added {
            let remove = Vec::new();
            (TagChange { add: tags, remove }, "added to")
        } else {
            let add = Vec::new();
            (TagChange { add, remove: tags }, "removed from")
        };
        let change = ContactChange {
            contact: args.contact,
            tags,
            ..ContactChange::default()
        };
        let contact = patch_contact(&self.patch_contact, call, change).await?;
        let left = contact.fields.get("tags").cloned();
        Ok(ToolSuccess {
            description: format!("Tag {named} {effect} contact {}", contact.id),
            data: json!({ "contact": contact.id, "tags": left.unwrap_or(Value::Array(Vec::new())) }),
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    tag: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    contact: Option<String>,
    /// A repetition does no harm anyway.
    #[serde(default, rename = "idempotent")]
    _idempotent: bool,
}

impl Tool for ChangeTags {
    fn name(&self) -> &'static str {
        if self.is_added {
            "add_tag"
        } else {
            "remove_tag"
        }
    }

    fn risk(&self) -> Risk {
        Risk::Medium
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(self.change(call))
    }
}
