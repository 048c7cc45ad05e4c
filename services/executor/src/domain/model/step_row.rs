//! A step as its row stores it.

use chrono::{DateTime, Utc};
use holdpoint_contracts::run::{ActionResult, StepStatus};
use holdpoint_ids::{NodeName, RunId};
use serde_json::Value;

/// A step's row (S2-R15).
#[derive(Debug, Clone, PartialEq)]
pub struct StepRow {
    pub run: RunId,
    pub step: String,
    pub status: StepStatus,
    pub tool: Option<String>,
    pub request: Option<Value>,
    pub response: Option<ActionResult>,
    /// Code of a failure.
    pub error_code: Option<String>,
    /// The tool's own error text, bounded, for operators only (S0-R5).
    pub raw_error: Option<String>,
    /// The worker that was granted the start.
    pub claimed_by: Option<NodeName>,
    pub claimed_at: Option<DateTime<Utc>>,
    pub started_at: Option<DateTime<Utc>>,
    pub ended_at: Option<DateTime<Utc>>,
    /// Tries of the tool so far.
    pub attempts: u32,
    /// Number of the current dispatch.
    pub dispatch: u64,
}
