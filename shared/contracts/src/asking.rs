//! Questions of tools while their steps run (S3-R2), and their answers.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_ids::{HoldId, NotificationId, RunId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::IntoStaticStr;

use crate::hold::{OnTimeout, Priority};
use crate::link::Link;

words!(AskMode);

/// How long people have to answer by default (S3-R1): 5 minutes, in milliseconds.
pub const TIMEOUT_MS: u64 = 300_000;

/// Largest answers of a dispatch, in bytes of JSON together. Asking again returns older ones.
pub const ANSWERS_BYTES_MAX: usize = 256 * 1024;

/// The tool of a step that is in progress asks people (S3-R2). The same `key` again asks nothing
/// new: it returns the first question and, once there is one, its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestInput {
    pub run: RunId,
    /// One of its steps; none: the one that is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Number of the dispatch that asks: an older one is refused. None: the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch: Option<u64>,
    /// The step token of the dispatch. It says which step and which dispatch ask, and that they may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    pub question: ToolQuestion,
}

/// A question of a running tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolQuestion {
    /// For people: 1 to 10,000 characters.
    pub question: String,
    /// The answers there are, 2 to 100; empty: any text, or what the schema says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(deserialize_with = "crate::form::words")]
    pub options: Vec<String>,
    /// The form of an answer: the flat subset of JSON Schema that MCP elicitation uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// Where a user enters a secret, instead of options and a schema: the answer is `done` or `declined`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// Recipients: `@user.<name>` or `@role.<name>`, at most 50; empty: the workspace's owners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// How long, in milliseconds: 1 s to 90 days, 5 minutes by default.
    #[serde(default = "timeout_default")]
    pub timeout_ms: u64,
    /// Effect of the timeout: `fail`, `skip`, `escalate` or `default`.
    #[serde(default)]
    pub on_timeout: OnTimeout,
    /// The answer for [`OnTimeout::Default`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Names the question within its step, 1 to 200 characters; none: made from its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// How the tool waits.
    #[serde(default)]
    pub mode: AskMode,
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub priority: Priority,
}

const fn timeout_default() -> u64 {
    TIMEOUT_MS
}

impl ToolQuestion {
    /// A question with defaults for everything else.
    #[must_use]
    pub fn new(question: impl Into<String>) -> Self {
        Self {
            question: question.into(),
            options: Vec::new(),
            schema: None,
            link: None,
            to: Vec::new(),
            timeout_ms: TIMEOUT_MS,
            on_timeout: OnTimeout::Fail,
            default: None,
            key: None,
            mode: AskMode::Block,
            priority: Priority::Normal,
        }
    }
}

/// How a tool waits for people.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum AskMode {
    /// It stays where it is and keeps its lease.
    #[default]
    Block,
    /// It ends by saying that it parks; its step is dispatched again with the answer.
    Park,
}

/// The current state of a tool's question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestedInput {
    /// The notification that users see; all inbox entries share this id.
    pub notification_id: NotificationId,
    /// The request: `GET /requests/{id}`.
    pub request_id: HoldId,
    pub step: String,
    /// The question's name within its step.
    pub key: String,
    /// Whether there is an answer that counts.
    pub status: InputStatus,
    /// The deadline; none while a pause has stopped the clock, and once it is answered.
    #[serde(default, with = "crate::instant::option")]
    pub deadline: Option<DateTime<Utc>>,
    /// The answer; none while it is open.
    #[serde(flatten)]
    pub given: Option<GivenAnswer>,
}

/// Whether a question has an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputStatus {
    /// No user has answered, or the run is paused: an answer takes effect on resume.
    Open,
    /// The answer counts.
    Answered,
}

/// A user's answer to a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GivenAnswer {
    /// The request that was answered.
    pub question_id: HoldId,
    /// One of the options, a text, or what the schema says.
    pub answer: Value,
    /// The user; `timeout` if the default counts.
    pub by: String,
    /// The same as the agent reads it (S3-R4): `User responded: …`.
    pub continuation: String,
}

/// The answers that a tool has been given, by the keys of their questions.
pub type Answers = BTreeMap<String, GivenAnswer>;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// S3-R4: an answered question has the fields of the open one, and those of its answer.
    #[test]
    fn an_answered_question_is_the_same_with_its_answer() {
        let open = json!({
            "notification_id": "note_01920000000070008000000000000001-1",
            "request_id": "hold_01920000000070008000000000000001-1",
            "step": "step-02", "key": "color", "status": "open",
            "deadline": "2026-03-02T10:00:00.000Z",
        });
        let mut answered = open.clone();
        answered["status"] = json!("answered");
        answered["deadline"] = Value::Null;
        answered["question_id"] = open["request_id"].clone();
        answered["answer"] = json!("yes");
        answered["by"] = json!("ada");
        answered["continuation"] = json!("User responded: yes");
        for sample in [open, answered] {
            let read: RequestedInput = serde_json::from_value(sample.clone()).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), sample);
        }
    }
}
