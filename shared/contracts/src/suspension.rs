//! Suspending a run: the command, the snapshot, and what workers add to it (S1).

mod blobs;
mod continued;

use std::collections::BTreeMap;

pub use blobs::{
    BLOB_CHUNK_MAX, BLOBS_MAX, BlobChunk, BlobContent, BlobView, GetBlob, GetStepBlob, PutBlob,
};
use chrono::{DateTime, Utc};
pub use continued::{ContinueStep, ContinuedStep, FoundSandbox, SandboxState};
use holdpoint_ids::{NodeName, RunId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::run::StepStatus;

/// Largest value of a snapshot that is kept inline, in bytes of JSON. A larger one is a [`ValueReference`] (S1-R9).
pub const SNAPSHOT_INLINE_MAX: usize = 64 * 1024;

/// Largest value that a snapshot may refer to, and largest blob: 16 MiB.
pub const SNAPSHOT_BLOB_MAX: u64 = 16 * 1024 * 1024;

/// Most bytes that one snapshot may refer to, and most bytes of the blobs of a run: 64 MiB.
pub const SNAPSHOT_MAX: u64 = 64 * 1024 * 1024;

/// Suspends a run: it stops as with a pause, and a snapshot is kept (S1-R1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuspendRun {
    pub run: RunId,
    /// In one sentence; none: who suspended it.
    pub reason: Option<String>,
}

/// What a resume does with the steps that were in progress when the run was suspended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepOnResume {
    /// They are dispatched again.
    Redo,
    Skip,
    /// The only one is complete with this result.
    CompleteWith {
        result: Value,
    },
}

/// Workers report suspended steps; one request a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuspendSteps {
    /// The node that was granted them.
    pub node: NodeName,
    /// At least one.
    pub steps: Vec<SuspendedStep>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuspendedStep {
    pub run: RunId,
    pub step: String,
    /// As in the dispatch; only the current one counts.
    pub dispatch: u64,
    /// The worker shuts down. Otherwise it follows a suspension of the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shutdown: bool,
    /// The tool has stopped without a result: the lease ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    /// What the worker knows of the step; none: it knows nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supplement: Option<Supplement>,
}

/// The worker's own part of a snapshot. Each value is JSON of at most [`SNAPSHOT_INLINE_MAX`] bytes, or a
/// [`ValueReference`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Supplement {
    /// What the tool has written and not finished.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub write_buffer: Value,
    /// Where the tool can continue.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub checkpoint: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// A value that is too large for a snapshot. Its content is a blob of the run, or stays where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValueReference {
    /// In lowercase hexadecimal digits.
    pub sha256: String,
    /// In bytes.
    pub size: u64,
    pub media_type: String,
    /// Whether its content was uploaded, and can be read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stored: bool,
}

/// Media type of every value that a worker or the executor refers to.
const JSON: &str = "application/json";

impl ValueReference {
    /// A reference to the JSON text of a value.
    #[must_use]
    pub fn of(value: &Value) -> Self {
        let text = value.to_string();
        Self {
            sha256: format!("{:x}", Sha256::digest(text.as_bytes())),
            ..Self::unread(u64::try_from(text.len()).unwrap_or(u64::MAX))
        }
    }

    /// A reference to a JSON text that was too large to read. It has no hash.
    #[must_use]
    pub fn unread(bytes: u64) -> Self {
        Self {
            sha256: String::new(),
            size: bytes,
            media_type: JSON.to_owned(),
            stored: false,
        }
    }
}

/// The directory that a worker gives to the tool of one step (S1-R8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sandbox {
    /// The node that has it.
    pub node: NodeName,
    pub path: String,
    /// By path.
    pub files: Vec<SandboxFile>,
    /// Files that the manifest leaves out, because it has no room for them.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub omitted: u64,
    /// What the node that continues the step has found; none: no node has continued it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<FoundSandbox>,
}

/// One file of a sandbox. Its content is not part of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxFile {
    /// Within the sandbox.
    pub path: String,
    /// In bytes.
    pub size: u64,
    /// In lowercase hexadecimal digits.
    pub sha256: String,
}

/// The snapshot of a suspended run (S1-R2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotView {
    pub run: RunId,
    pub snapshot_json: Snapshot,
    #[serde(with = "crate::instant")]
    pub suspended_at: DateTime<Utc>,
    /// Whether nothing more can come: each step that was in progress has ended, or its worker has added its part.
    pub complete: bool,
}

/// The content of a snapshot. Values of more than [`SNAPSHOT_INLINE_MAX`] bytes are [`ValueReference`]s.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    pub reason: String,
    /// Whether another node has continued the run without a person (S1-R5).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub auto_resumable: bool,
    /// The step that was in progress, else the one that the run waited for.
    pub current_step: Option<String>,
    /// Calls of tools so far, oldest first; the newest 100.
    pub tool_calls: Vec<ToolCallView>,
    /// Of the current step, as its worker reported it.
    pub write_buffer: Value,
    /// As `write_buffer`.
    pub checkpoint: Value,
    /// As `write_buffer`.
    pub sandbox: Option<Sandbox>,
    /// The same of the other steps that were in progress, by step.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub other_steps: BTreeMap<String, Supplement>,
}

/// One call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCallView {
    pub step: String,
    pub tool: String,
    pub dispatch: u64,
    pub attempt: u32,
    pub status: StepStatus,
    pub node: Option<NodeName>,
    pub request: Value,
    /// As the run shows it: without secrets (S0-R5).
    pub response: Value,
    pub error_code: Option<String>,
    #[serde(default, with = "crate::instant::option")]
    pub started_at: Option<DateTime<Utc>>,
    #[serde(default, with = "crate::instant::option")]
    pub ended_at: Option<DateTime<Utc>>,
}

/// Most runs of one [`EndedRuns`].
pub const ENDED_RUNS_MAX: usize = 100;

/// Which of these runs have ended, or do not exist. A node then removes their sandboxes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndedRuns {
    /// At most [`ENDED_RUNS_MAX`].
    pub runs: Vec<RunId>,
}

/// The newest snapshot of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetSnapshot {
    pub run: RunId,
}
