//! The steps `wait_for` and `finish`, as the author wrote them.

use holdpoint_contracts::contact::REPLY_SIGNAL;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Waits for a signal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitFor {
    /// Name of the signal, as senders write it.
    pub signal: String,
    /// How long, in milliseconds: from 1 s to 90 days.
    pub timeout_ms: u64,
    #[serde(default, skip_serializing_if = "holdpoint_contracts::is_default")]
    pub on_timeout: OnWaitTimeout,
}

impl WaitFor {
    /// Whether it ends when the contact of the run has replied.
    #[must_use]
    pub fn is_for_reply(&self) -> bool {
        self.signal == REPLY_SIGNAL
    }
}

/// A signal as a sentence names it.
#[must_use]
pub fn signal_text(name: &str) -> String {
    if name == REPLY_SIGNAL {
        return "a reply of the contact".to_owned();
    }
    format!("the signal {name}")
}

/// What follows if no signal comes, or no child run ends, in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnWaitTimeout {
    /// The step fails.
    #[default]
    Fail,
    /// The step is skipped and reads as `null`.
    Skip,
}

/// Ends the run. Steps that have not ended are skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finish {
    /// The result of the run in the author's words, perhaps with placeholders.
    pub summary: String,
    #[serde(default, skip_serializing_if = "holdpoint_contracts::is_default")]
    pub status: FinishStatus,
    /// What a parent run gets of the run, perhaps with placeholders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
}

/// How a `finish` ends its run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishStatus {
    #[default]
    Completed,
    Failed,
}

impl Finish {
    /// What may hold placeholders.
    #[must_use]
    pub fn template(&self) -> Value {
        match &self.output {
            Some(output) => json!({ "summary": self.summary, "output": output }),
            None => json!({ "summary": self.summary }),
        }
    }
}
