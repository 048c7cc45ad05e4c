//! The steps of a plan that wait for people, as the author wrote them.

use holdpoint_contracts::hold::{Assign, OnTimeout, Policy, Priority};
use holdpoint_contracts::link::Link;
use holdpoint_contracts::run::HoldKind;
use holdpoint_holds::deadline::default_timeout_ms;
use holdpoint_ids::PolicyName;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Description of a handoff's task that says nothing itself (S0-T2).
pub const DEFAULT_MESSAGE: &str = "Agent requires attention";

/// A question to people (S3-R1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// Whom, perhaps by placeholder; a list of texts, empty: the workspace's owners.
    #[serde(default)]
    pub to: Value,
    /// What, perhaps with placeholders.
    pub question: String,
    /// The answers there are; empty: any text, or what the schema says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// A link to the page where a person enters the answer, instead of options and a schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// How long, in milliseconds: from 1 s to 90 days.
    pub timeout_ms: u64,
    /// The step names no time, so the time of its policies counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub time_by_policy: bool,
    pub on_timeout: OnTimeout,
    #[serde(default, skip_serializing_if = "holdpoint_contracts::is_default")]
    pub priority: Priority,
    /// Who of those that it is put to gets it.
    #[serde(default, skip_serializing_if = "holdpoint_contracts::is_default")]
    pub assign: Assign,
    /// The answer for [`OnTimeout::Default`], perhaps by placeholder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<PolicyName>,
}

/// A handoff to people (S0-AC6).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Handoff {
    /// Whom, perhaps by placeholder; a list of texts, empty: the workspace's owners.
    #[serde(default)]
    pub to: Value,
    /// What is to be done, perhaps with placeholders; none: [`DEFAULT_MESSAGE`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How urgent; a warm lead is at least high.
    #[serde(default)]
    pub priority: Priority,
    /// Who of those that it is put to gets it.
    #[serde(default, skip_serializing_if = "holdpoint_contracts::is_default")]
    pub assign: Assign,
    /// How long, in milliseconds: up to 90 days; 0: it never goes on by itself (S0-T1).
    pub timeout_ms: u64,
    /// The step names no time, so the time of its policies counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub time_by_policy: bool,
    pub on_timeout: OnTimeout,
    /// Whether the contact is interested, if the author knows; none: found out (S0-T2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_lead: Option<bool>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<PolicyName>,
}

/// Who approves a gated step, and for how long (S2-R4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRule {
    /// Recipients; empty: the workspace's owners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<String>,
    #[serde(default, skip_serializing_if = "holdpoint_contracts::is_default")]
    pub votes: Policy,
    /// Time until the request escalates, in milliseconds: 1 s to 90 days.
    pub decide_within_ms: u64,
    /// The step names no time, so the time of its policies counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub time_by_policy: bool,
    /// How long an approval permits dispatches, in milliseconds: 1 s to 90 days.
    pub valid_ms: u64,
    /// The step names no time for its approval, so the time of its policies counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub valid_by_policy: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<PolicyName>,
}

/// How long an approval permits dispatches if the author says nothing: 24 hours, in milliseconds.
pub const VALID_DEFAULT_MS: u64 = 86_400_000;

impl Default for ApprovalRule {
    /// The gate of a tool with risk `high`: the owners, one vote.
    fn default() -> Self {
        Self {
            from: Vec::new(),
            votes: Policy::default(),
            decide_within_ms: default_timeout_ms(HoldKind::Approval),
            time_by_policy: false,
            valid_ms: VALID_DEFAULT_MS,
            valid_by_policy: false,
            policies: Vec::new(),
        }
    }
}

impl Ask {
    #[must_use]
    pub(crate) fn describe(&self, question: &str) -> String {
        format!("Ask {}: {question}", written(&self.to))
    }

    #[must_use]
    pub fn template(&self) -> Value {
        json!({ "to": self.to, "question": self.question, "default": self.default })
    }
}

impl Handoff {
    #[must_use]
    pub fn template(&self) -> Value {
        let message = self.message.as_deref().unwrap_or(DEFAULT_MESSAGE);
        json!({ "to": self.to, "message": message })
    }
}

#[must_use]
pub fn whom(to: &[String]) -> String {
    match to {
        [] => "the workspace's owners".to_owned(),
        some => some.join(", "),
    }
}

/// The recipients in words, before placeholders are resolved.
#[must_use]
pub fn written(to: &Value) -> String {
    let some = to.as_array().map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<String> = some
        .iter()
        .filter_map(|one| one.as_str().map(str::to_owned))
        .collect();
    whom(&texts)
}
