//! `update_contact {set, contact?}`: changes fields of a contact by a merge patch.
//!
//! Owns the parsing of the arguments and the choice of the contact. It must not store anything: the contact
//! belongs to another service, which [`ContactPatcher`] calls.

use std::{fmt, sync::Arc};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{invalid_args, quote, read_args};
use crate::tool::{BoxFuture, Tool, ToolCall, ToolFailure, ToolResult, ToolSuccess};

const NAME: &str = "update_contact";

/// Calls the service that owns contacts.
pub trait ContactPatcher: Send + Sync + 'static {
    /// Applies a JSON merge patch (RFC 7396) once per `idempotency_key`.
    ///
    /// # Errors
    /// The reason for people. It is stored and shown (S0-R5), so it must not contain secrets, paths, SQL or
    /// stack traces.
    fn patch<'a>(
        &'a self,
        workspace: &'a str,
        contact: &'a str,
        patch: Value,
        idempotency_key: &'a str,
    ) -> BoxFuture<'a, Result<(), String>>;
}

/// The tool `update_contact`.
#[derive(Clone)]
pub struct UpdateContact {
    contacts: Arc<dyn ContactPatcher>,
}

impl fmt::Debug for UpdateContact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpdateContact").finish_non_exhaustive()
    }
}

impl UpdateContact {
    #[must_use]
    pub fn new(contacts: Arc<dyn ContactPatcher>) -> Self {
        Self { contacts }
    }

    async fn update(&self, call: &ToolCall) -> ToolResult {
        let args: Args = read_args(NAME, &call.args)?;
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
        let contact = args.contact.or_else(|| call.contact.clone());
        let Some(contact) = contact.filter(|id| !id.is_empty()) else {
            return Err(ToolFailure::new(
                "no_contact",
                "This run has no contact; start it with one, or name one in `contact`.",
            ));
        };
        let fields: Vec<String> = args.set.keys().map(|field| quote(field)).collect();
        let patch = Value::Object(args.set);
        self.contacts
            .patch(
                &call.workspace,
                &contact,
                patch.clone(),
                &call.idempotency_key,
            )
            .await
            .map_err(|reason| ToolFailure::new("contact_not_updated", quote(&reason)))?;
        Ok(ToolSuccess {
            description: format!("Contact {} updated: {}", quote(&contact), fields.join(", ")),
            data: json!({ "contact": contact, "set": patch }),
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

    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(self.update(call))
    }
}
