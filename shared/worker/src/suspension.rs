//! What a tool saves, so that a person can continue its step after a suspension (S1-R2).
//!
//! Owns the wish to stop and the saved values of one call. It must never stop a tool: a tool that can stop does so
//! itself, and any other one may finish.

pub mod sandbox;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdpoint_contracts::size::json_bytes;
use holdpoint_contracts::suspension::{SNAPSHOT_INLINE_MAX, Supplement, ValueReference};
use holdpoint_contracts::value_limits;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use self::sandbox::{SandboxDir, hex};

/// The suspension of one call. Cheap to clone.
#[derive(Clone, Default)]
pub struct CallSuspension {
    requested: CancellationToken,
    saved: Arc<Mutex<Supplement>>,
    sandbox: Option<SandboxDir>,
}

impl fmt::Debug for CallSuspension {
    /// Leaves out the saved values, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallSuspension")
            .field("is_requested", &self.is_requested())
            .finish_non_exhaustive()
    }
}

impl CallSuspension {
    /// With the directory that the worker gives to the tool.
    #[must_use]
    pub fn in_sandbox(sandbox: SandboxDir) -> Self {
        Self {
            sandbox: Some(sandbox),
            ..Self::default()
        }
    }

    /// Ends when the run is suspended, or the worker shuts down. A tool that can stop saves what it knows and returns
    /// [`ToolFailure::suspended`](crate::tool::ToolFailure::suspended).
    pub async fn requested(&self) {
        self.requested.cancelled().await;
    }

    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.requested.is_cancelled()
    }

    /// Saves where the tool can continue; replaces what was saved before. It may be called at any time.
    pub fn save_checkpoint(&self, checkpoint: Value) {
        self.saved().checkpoint = checkpoint;
    }

    /// Saves what the tool has written and not finished; replaces what was saved before.
    pub fn save_write_buffer(&self, write_buffer: Value) {
        self.saved().write_buffer = write_buffer;
    }

    /// The directory of this run and step, if the worker has one.
    #[must_use]
    pub const fn sandbox(&self) -> Option<&SandboxDir> {
        self.sandbox.as_ref()
    }

    pub(crate) fn request(&self) {
        self.requested.cancel();
    }

    /// What is known now, without the token of the step. Reads the sandbox, so it may take a while.
    pub(crate) async fn supplement(&self, token: Option<&str>) -> Supplement {
        let mut known = self.saved().clone();
        if let Some(sandbox) = self.sandbox.clone() {
            let read = tokio::task::spawn_blocking(move || sandbox.read());
            if let Ok(Some(found)) = read.await {
                let Supplement {
                    write_buffer,
                    checkpoint,
                    sandbox,
                } = found;
                known.sandbox = sandbox;
                set_missing(&mut known.write_buffer, write_buffer);
                set_missing(&mut known.checkpoint, checkpoint);
            }
        }
        for value in [&mut known.write_buffer, &mut known.checkpoint] {
            *value = kept(std::mem::take(value), token);
        }
        known
    }

    fn saved(&self) -> MutexGuard<'_, Supplement> {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A value that the tool has saved in its call counts more than one in a file.
fn set_missing(known: &mut Value, found: Value) {
    if known.is_null() {
        *known = found;
    }
}

/// A value as a snapshot keeps it: without the token, and a reference if it is large (S1-R9).
fn kept(value: Value, token: Option<&str>) -> Value {
    let mut value = value;
    if let Some(token) = token.filter(|token| !token.is_empty()) {
        remove_token(&mut value, token);
    }
    if json_bytes(&value) <= SNAPSHOT_INLINE_MAX && value_limits::check(&value).is_ok() {
        return value;
    }
    let text = value.to_string();
    json!(ValueReference {
        sha256: hex(&Sha256::digest(text.as_bytes())),
        size: u64::try_from(text.len()).unwrap_or(u64::MAX),
        media_type: "application/json".to_owned(),
    })
}

/// Values from a file have a bounded depth, because the JSON reader refuses deeper ones.
fn remove_token(value: &mut Value, token: &str) {
    match value {
        Value::String(text) if text.contains(token) => *text = text.replace(token, "[token]"),
        Value::Array(items) => items.iter_mut().for_each(|item| remove_token(item, token)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| remove_token(field, token)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests;
