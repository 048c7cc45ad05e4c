//! What a tool saves, so that a person can continue its step after a suspension (S1-R2).
//!
//! Owns the request to stop and the saved values of one call. It must never stop a tool: a tool that can stop does so
//! itself, and any other one may finish.

pub mod sandbox;
pub mod sandbox_limit;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdpoint_contracts::size::json_bytes;
use holdpoint_contracts::suspension::{
    ContinuedStep, FoundSandbox, SNAPSHOT_INLINE_MAX, Supplement, ValueReference,
};
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
    continued: Arc<Mutex<ContinuedStep>>,
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

    /// Where the tool can continue: what this call has saved last, else what an earlier call saved before a suspension.
    /// Null: nothing.
    #[must_use]
    pub fn checkpoint(&self) -> Value {
        let saved = lock(&self.saved).checkpoint.clone();
        saved_or(saved, || lock(&self.continued).checkpoint.clone())
    }

    /// As [`Self::checkpoint`], of what the tool has written and not finished.
    #[must_use]
    pub fn write_buffer(&self) -> Value {
        let saved = lock(&self.saved).write_buffer.clone();
        saved_or(saved, || lock(&self.continued).write_buffer.clone())
    }

    /// Whether the sandbox is still as an earlier call left it at a suspension (S1-R8). None: there was no such call, or
    /// it had no sandbox.
    #[must_use]
    pub fn found_sandbox(&self) -> Option<FoundSandbox> {
        lock(&self.continued).sandbox.clone()
    }

    /// The directory of this run and step, if the worker has one.
    #[must_use]
    pub const fn sandbox(&self) -> Option<&SandboxDir> {
        self.sandbox.as_ref()
    }

    pub(crate) fn request(&self) {
        self.requested.cancel();
    }

    /// Gives the tool what an earlier call saved.
    pub(crate) fn continue_with(&self, continued: ContinuedStep) {
        *lock(&self.continued) = continued;
    }

    /// What an earlier call saved.
    pub(crate) fn continued(&self) -> ContinuedStep {
        lock(&self.continued).clone()
    }

    /// Hides the secrets of the call in what is saved.
    pub(crate) fn hide(&self, secrets: &Redaction) {
        *lock(&self.hidden) = secrets.clone();
    }

    /// What the tool has saved, and its sandbox, without the token of the step and secrets. It reads files, so it may
    /// take seconds.
    pub(crate) async fn collect(&self, token: Option<&str>) -> CollectedSupplement {
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
        let ContinuedStep {
            write_buffer,
            checkpoint,
            sandbox: _,
            saved_at: _,
        } = lock(&self.continued).clone();
        set_missing(&mut known.write_buffer, write_buffer);
        set_missing(&mut known.checkpoint, checkpoint);
        let redaction = lock(&self.hidden).with_token(token);
        redaction.hide_in(&mut known.write_buffer);
        redaction.hide_in(&mut known.checkpoint);
        let files = known.sandbox.iter_mut().flat_map(|it| &mut it.files);
        files.for_each(|file| file.path = redaction.hide_text(&file.path));
        let values = [&mut known.write_buffer, &mut known.checkpoint];
        let large = values.into_iter().filter_map(refer_if_large).collect();
        CollectedSupplement {
            supplement: known,
            large,
        }
    }
}

/// The part of a snapshot, and the values to which it only refers.
#[derive(Debug)]
pub(crate) struct CollectedSupplement {
    pub(crate) supplement: Supplement,
    pub(crate) large: Vec<LargeValue>,
}

/// A value that is too large for a snapshot. Its content is a blob.
pub(crate) struct LargeValue {
    pub(crate) reference: ValueReference,
    pub(crate) text: String,
}

impl fmt::Debug for LargeValue {
    /// Leaves out the content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LargeValue")
            .field("reference", &self.reference)
            .finish_non_exhaustive()
    }
}

/// What this call has saved; null: what an earlier call saved.
fn saved_or(saved: Value, continued: impl FnOnce() -> Value) -> Value {
    if saved.is_null() { continued() } else { saved }
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
fn refer_if_large(value: &mut Value) -> Option<LargeValue> {
    if json_bytes(value) <= SNAPSHOT_INLINE_MAX && value_limits::check(value).is_ok() {
        return None;
    }
    let (reference, text) = (ValueReference::of(value), value.to_string());
    *value = json!(reference);
    Some(LargeValue { reference, text })
}

#[cfg(test)]
mod tests;
