//! Sends `update_contact` to the executor, which owns contacts.

use holdpoint_bus::Bus;
use holdpoint_contracts::executor::PatchContact;
use holdpoint_contracts::message::{Actor, Envelope, IdempotencyKey};
use holdpoint_ids::{ContactId, IdError, Workspace};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::retry::ask_with_retry;
use crate::tool::BoxFuture;
use crate::tools::ContactPatcher;

/// Patches contacts by the command `patch_contact`, once per idempotency key.
#[derive(Debug, Clone)]
pub struct BusContacts {
    bus: Bus,
}

impl BusContacts {
    #[must_use]
    pub fn new(bus: Bus) -> Self {
        Self { bus }
    }
}

impl ContactPatcher for BusContacts {
    fn patch<'a>(
        &'a self,
        workspace: &'a str,
        contact: &'a str,
        patch: Value,
        idempotency_key: &'a str,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let (workspace, envelope) = command(workspace, contact, patch, idempotency_key)?;
            let patched = ask_with_retry(&self.bus, &workspace, &envelope).await;
            patched.map(drop).map_err(|problem| problem.detail)
        })
    }
}

fn command(
    workspace: &str,
    contact: &str,
    patch: Value,
    idempotency_key: &str,
) -> Result<(Workspace, Envelope<PatchContact>), String> {
    let workspace = workspace
        .parse()
        .map_err(|error: IdError| error.to_string())?;
    let contact: ContactId = contact
        .parse()
        .map_err(|error: IdError| error.to_string())?;
    let Value::Object(patch) = patch else {
        return Err("the changes must be an object of fields".to_owned());
    };
    let command = PatchContact { contact, patch };
    let body = serde_json::to_vec(&command).map_err(|error| error.to_string())?;
    let key = IdempotencyKey {
        key: format!("{idempotency_key}:contact"),
        digest: format!("{:x}", Sha256::digest(body)),
    };
    let actor = Actor::service("worker");
    let key = Some(key);
    Ok((
        workspace,
        Envelope {
            actor,
            assertion: None,
            key,
            command,
        },
    ))
}
