//! `update_contact {set, contact?}`: changes fields of a contact by a merge patch (RFC 7396).
//!
//! Owns the parsing of the arguments and the choice of the contact. It must not store anything: the executor
//! owns contacts.

use holdpoint_contracts::executor::PatchContact;
use holdpoint_contracts::message::{Actor, Envelope, IdempotencyKey};
use holdpoint_ids::IdError;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::send_command::SendCommand;
use super::{invalid_args, quote, read_args};
use crate::tool::{BoxFuture, Risk, Tool, ToolCall, ToolFailure, ToolResult, ToolSuccess};

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
        let of_run = || call.dispatch.contact.as_ref().map(ToString::to_string);
        let contact = args.contact.or_else(of_run);
        let Some(contact) = contact.filter(|id| !id.is_empty()) else {
            return Err(ToolFailure::new(
                "no_contact",
                "This run has no contact; start it with one, or name one in `contact`.",
            ));
        };
        let fields: Vec<String> = args.set.keys().map(|field| quote(field)).collect();
        let done = ToolSuccess {
            description: format!("Contact {} updated: {}", quote(&contact), fields.join(", ")),
            data: json!({ "contact": contact, "set": args.set }),
        };
        match self.patch(call, &contact, args.set).await {
            Ok(()) => Ok(done),
            Err(reason) => Err(ToolFailure::new("contact_not_updated", quote(&reason))),
        }
    }

    /// Patches a contact once per step. An error is the reason for people. It is stored and shown (S0-R5).
    async fn patch(
        &self,
        call: &ToolCall,
        contact: &str,
        patch: Map<String, Value>,
    ) -> Result<(), String> {
        let workspace = call.dispatch.workspace.clone();
        let contact = contact.parse();
        let contact = contact.map_err(|error: IdError| error.to_string())?;
        let command = PatchContact { contact, patch };
        let body = serde_json::to_vec(&command).map_err(|error| error.to_string())?;
        let key = IdempotencyKey {
            key: format!("{}:contact", call.dispatch.idempotency_key()),
            digest: format!("{:x}", Sha256::digest(body)),
        };
        let envelope = Envelope {
            actor: Actor::service("worker"),
            assertion: None,
            key: Some(key),
            command,
        };
        let patched = (self.patch_contact)(workspace, envelope).await;
        patched.map(drop).map_err(|problem| problem.detail)
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
