//! `signal_run`: a signal for a step that waits for it.

use holdpoint_ids::RunId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Sends a signal to a live run. A step that waits for it completes; an early signal is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignalRun {
    pub run: RunId,
    /// The name that a `wait_for` step of the run has.
    pub name: String,
    /// The result of the step; at most 64 KiB.
    #[serde(default)]
    pub data: Value,
    /// Made by the sender, 1 to 200 characters. A run takes each key once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}
