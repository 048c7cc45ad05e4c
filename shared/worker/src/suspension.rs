//! What a tool saves, so that a person can continue its step after a suspension (S1-R2).
//!
//! Owns the request to stop and the saved values of one call. It must never stop a tool: a tool that can stop does so
//! itself, and any other one may finish.

pub mod sandbox;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdpoint_contracts::size::json_bytes;
use holdpoint_contracts::suspension::{SNAPSHOT_INLINE_MAX, Supplement, ValueReference};
use holdpoint_contracts::value_limits;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::sandbox::SandboxDir;
use crate::redaction::Redaction;

/// The suspension of one call. Cheap to clone.
#[derive(Clone, Default)]
pub struct CallSuspension {
    requested: CancellationToken,
    saved: Arc<Mutex<Supplement>>,
    hidden: Arc<Mutex<Redaction>>,
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
        lock(&self.saved).checkpoint = checkpoint;
    }

    /// Saves what the tool has written and not finished; replaces what was saved before.
    pub fn save_write_buffer(&self, write_buffer: Value) {
        lock(&self.saved).write_buffer = write_buffer;
    }

    /// The directory of this run and step, if the worker has one.
    #[must_use]
    pub const fn sandbox(&self) -> Option<&SandboxDir> {
        self.sandbox.as_ref()
    }

    pub(crate) fn request(&self) {
        self.requested.cancel();
    }

    /// Hides the secrets of the call in what is saved.
    pub(crate) fn hide(&self, secrets: &Redaction) {
        *lock(&self.hidden) = secrets.clone();
    }

    /// What the tool has saved, and its sandbox, without the token of the step and secrets. It reads files, so it may
    /// take seconds.
    pub(crate) async fn supplement(&self, token: Option<&str>) -> Supplement {
        let mut known = lock(&self.saved).clone();
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
        let redaction = lock(&self.hidden).with_token(token);
        redaction.hide_in(&mut known.write_buffer);
        redaction.hide_in(&mut known.checkpoint);
        let files = known.sandbox.iter_mut().flat_map(|it| &mut it.files);
        files.for_each(|file| file.path = redaction.hide_text(&file.path));
        for value in [&mut known.write_buffer, &mut known.checkpoint] {
            refer_if_large(value);
        }
        known
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A value that the tool has saved in its call counts more than one in a file.
fn set_missing(known: &mut Value, found: Value) {
    if known.is_null() {
        *known = found;
    }
}

/// A value that is too large or too deep for a snapshot becomes a reference (S1-R9).
fn refer_if_large(value: &mut Value) {
    let fits = json_bytes(value) <= SNAPSHOT_INLINE_MAX && value_limits::check(value).is_ok();
    if !fits {
        *value = json!(ValueReference::of(value));
    }
}

#[cfg(test)]
mod tests;
