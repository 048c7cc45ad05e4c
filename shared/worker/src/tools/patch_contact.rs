//! The change of a contact by a tool.
//!
//! Owns the choice of the contact and the key of the change. It must not store anything: the executor owns
//! contacts.

use holdpoint_contracts::contact::{ContactView, TagChange};
use holdpoint_contracts::executor::PatchContact;
use holdpoint_contracts::message::{Actor, Envelope, IdempotencyKey};
use holdpoint_ids::IdError;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::send_command::SendCommand;
use super::{REFUSED, quote};
use crate::tool::{ToolCall, ToolFailure};

#[derive(Default)]
pub(super) struct ContactChange {
    /// Without it, the contact of the run.
    pub(super) contact: Option<String>,
    pub(super) patch: Map<String, Value>,
    pub(super) tags: TagChange,
}

/// Changes a contact once per step.
///
/// # Errors
/// Code `no_contact`, or `invalid_args` or `contact_not_updated` with the reason for people. It is stored and shown
/// (S0-R5).
pub(super) async fn patch_contact(
    send: &SendCommand<PatchContact>,
    call: &ToolCall,
    change: ContactChange,
) -> Result<ContactView, ToolFailure> {
    let of_run = || call.dispatch.contact.as_ref().map(ToString::to_string);
    let contact = change.contact.or_else(of_run);
    let Some(contact) = contact.filter(|id| !id.is_empty()) else {
        return Err(ToolFailure::new(
            "no_contact",
            "This run has no contact; start it with one, or name one in `contact`.",
        ));
    };
    let refused = |reason: &str| ToolFailure::new("contact_not_updated", quote(reason));
    let command = PatchContact {
        contact: contact
            .parse()
            .map_err(|error: IdError| refused(&error.to_string()))?,
        patch: change.patch,
        tags: change.tags,
    };
    let body = serde_json::to_vec(&command).map_err(|error| refused(&error.to_string()))?;
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
    let patched = send(call.dispatch.workspace.clone(), envelope).await;
    patched.map_err(|problem| match problem.status {
        REFUSED => ToolFailure::new("invalid_args", quote(&problem.detail)),
        _ => refused(&problem.detail),
    })
}
