//! A step as its row stores it.

use chrono::{DateTime, Utc};
use holdpoint_contracts::run::{ActionResult, FailedAttempt, StepStatus};
use holdpoint_contracts::tool::Risk;
use holdpoint_holds::redaction::{ARGS, redact};
use holdpoint_ids::{NodeName, RunId};
use serde_json::Value;

use crate::domain::model::run::Step;

/// A step's row (S2-R15).
#[derive(Debug, Clone, PartialEq)]
pub struct StepRow {
    pub run: RunId,
    pub step: String,
    pub status: StepStatus,
    pub tool: Option<String>,
    /// None: the row keeps what it has.
    pub called: Option<Box<CalledTool>>,
    /// With the hidden parts, because the call may be repeated.
    pub request: Option<Value>,
    pub response: Option<ActionResult>,
    pub error_code: Option<String>,
    /// The tool's own error text, bounded, for operators only (S0-R5).
    pub raw_error: Option<String>,
    /// The newest failed attempts, oldest first; empty: the row keeps those it has.
    pub failed_attempts: Vec<FailedAttempt>,
    /// The worker that was granted the start.
    pub claimed_by: Option<NodeName>,
    pub claimed_at: Option<DateTime<Utc>>,
    pub started_at: Option<DateTime<Utc>>,
    pub ended_at: Option<DateTime<Utc>>,
    pub attempts: u32,
    pub dispatch: u64,
    /// A retry of its run has begun it anew: of its row, only the failed attempts are kept.
    pub is_reset: bool,
}

/// What counted for the tool of a step at its newest call (S2-R2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalledTool {
    pub risk: Risk,
    /// Whether the call needed an approval.
    pub waiting_confirm: bool,
    /// The system that it called; empty: unknown.
    pub app: String,
    /// Names of the secrets in its definition, separated by commas; empty: it uses none.
    pub credential_id: String,
    /// Parts of arguments and result that are never shown.
    pub redaction: Vec<String>,
}

impl StepRow {
    /// The request without its hidden parts.
    #[must_use]
    pub fn shown_request(&self) -> Option<Value> {
        let mut request = self.request.clone()?;
        if let Some(called) = &self.called {
            redact(&mut request, ARGS, &called.redaction);
        }
        Some(request)
    }

    /// The row of a step without its request and results.
    #[must_use]
    pub fn new(run: RunId, step: &Step) -> Self {
        Self {
            run,
            step: step.id.clone(),
            status: step.phase.status(),
            tool: None,
            called: None,
            request: None,
            response: None,
            error_code: None,
            raw_error: None,
            failed_attempts: Vec::new(),
            claimed_by: None,
            claimed_at: None,
            started_at: None,
            ended_at: None,
            attempts: step.attempts,
            dispatch: step.dispatch,
            is_reset: false,
        }
    }
}
