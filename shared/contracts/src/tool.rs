//! The tool registry: what operators and workers say of tools.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_ids::{NodeName, ToolName};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::duration::MAX_WAIT;
use crate::message::Actor;

/// Names that mean a tool of Holdpoint itself.
pub const BUILT_IN: [&str; 9] = [
    "log",
    "set",
    "http_request",
    "send_email",
    "add_tag",
    "remove_tag",
    "update_contact",
    "search_contacts",
    "create_task",
];

/// Starts the plan that the planner of an agent made. The executor does it itself, and only for a planner.
pub const START_PLAN: &str = "start_plan";

/// Means the step `wait_for` with the signal of a reply. No tool can have this name.
pub const WAIT_UNTIL_REPLY: &str = "wait_until_reply";

/// Built-in tools whose second call does no harm, whatever the author of the step says.
const HARMLESS: [&str; 5] = ["log", "set", "add_tag", "remove_tag", "search_contacts"];

/// Built-in tools without an effect.
const READ_ONLY: [&str; 2] = ["set", "search_contacts"];

/// Whether a name means a tool of Holdpoint itself.
#[must_use]
pub fn is_built_in(name: &str) -> bool {
    name == START_PLAN || name == WAIT_UNTIL_REPLY || BUILT_IN.contains(&name)
}

/// Whether a second call of a tool of Holdpoint itself does no harm, whatever its arguments are.
#[must_use]
pub fn is_always_idempotent(name: &str) -> bool {
    HARMLESS.contains(&name)
}

/// The risk of a tool of Holdpoint itself.
#[must_use]
pub fn built_in_risk(name: &str) -> Risk {
    if READ_ONLY.contains(&name) {
        Risk::Low
    } else {
        Risk::Medium
    }
}

/// How much harm a tool can do (S2-R2).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, strum::Display,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Risk {
    /// None worth speaking of.
    Low,
    /// Some.
    Medium,
    /// Never without an approval (S2-R3).
    High,
}

/// A tool as an operator (`POST /tools`) or a node registers it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSpec {
    /// The name in steps.
    pub name: ToolName,
    /// The tool's version; free text.
    pub version: Option<String>,
    /// How much harm it can do. There is no default: a missing one is refused.
    pub risk: Risk,
    /// Whether calling it twice does no harm.
    #[serde(default)]
    pub idempotent: bool,
    /// JSON Schema of the arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args_schema: Option<Value>,
    /// JSON Schema of the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_schema: Option<Value>,
    /// Longest time of one attempt, for steps that state no `timeout`. 1 s to 90 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(with = "crate::duration::text::option")]
    pub timeout: Option<u64>,
    /// When a failed call is repeated, for steps that state no `retry`. It counts for idempotent calls only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<ToolRetry>,
    /// Names of the secrets that its nodes resolve for it, so that an approval covers them. Only nodes state them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Parts of arguments and results that no view shows, such as `args.card.number`. Nodes may only add some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redaction: Option<Vec<String>>,
    /// The call: arguments are the JSON body, a 2xx JSON response is the result. None: workers offer the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpCall>,
}

impl ToolSpec {
    /// A tool of workers without further statements.
    #[must_use]
    pub const fn new(name: ToolName, risk: Risk) -> Self {
        Self {
            name,
            version: None,
            risk,
            idempotent: false,
            args_schema: None,
            result_schema: None,
            timeout: None,
            retry: None,
            secrets: Vec::new(),
            redaction: None,
            http: None,
        }
    }

    /// Who runs it.
    #[must_use]
    pub const fn source(&self) -> ToolSource {
        match self.http {
            Some(_) => ToolSource::Http,
            None => ToolSource::Worker,
        }
    }
}

/// Attempts of an idempotent call, and of a `retry` without `attempts`.
pub const ATTEMPTS_DEFAULT: u32 = 3;

/// Time before the second attempt, in milliseconds. It doubles with every further attempt.
pub const BACKOFF_DEFAULT_MS: u64 = 1_000;

/// Longest time between two attempts if none is stated, in milliseconds.
pub const MAX_BACKOFF_DEFAULT_MS: u64 = 60_000;

/// Most attempts of a step.
pub const ATTEMPTS_MAX: u32 = 100;

/// Most codes of `on`.
pub const RETRY_CODES_MAX: usize = 50;

/// Longest code of `on`, in bytes.
pub const RETRY_CODE_BYTES_MAX: usize = 100;

/// When a failed call is repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolRetry {
    /// 1 to 100, with the first one. 1 means that it is not repeated.
    #[serde(default = "attempts")]
    pub attempts: u32,
    /// Time before the second attempt. It doubles with every further one. 1 s to 90 days.
    #[serde(default = "backoff", with = "crate::duration::text")]
    pub backoff: u64,
    /// Longest time between two attempts. Default: 1 min, or `backoff` if that is longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(with = "crate::duration::text::option")]
    pub max_backoff: Option<u64>,
    /// Codes of the failures that are repeated; empty: all that another attempt may avoid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<String>,
}

impl ToolRetry {
    /// What is wrong with it.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        if !(1..=ATTEMPTS_MAX).contains(&self.attempts) {
            return Some(format!(
                "`retry.attempts` is a whole number from 1 to {ATTEMPTS_MAX}"
            ));
        }
        let longest = self.max_backoff.unwrap_or(self.backoff);
        if longest < self.backoff {
            return Some("`retry.max_backoff` is at least as long as `retry.backoff`".to_owned());
        }
        let is_code = |code: &String| (1..=RETRY_CODE_BYTES_MAX).contains(&code.len());
        if self.on.len() > RETRY_CODES_MAX || !self.on.iter().all(is_code) {
            return Some(format!(
                "`retry.on` has at most {RETRY_CODES_MAX} error codes of 1 to {RETRY_CODE_BYTES_MAX} bytes"
            ));
        }
        let backoff = time_error("retry.backoff", self.backoff);
        backoff.or_else(|| time_error("retry.max_backoff", longest))
    }
}

/// What is wrong with a time limit or a backoff in milliseconds.
#[must_use]
pub fn time_error(field: &str, ms: u64) -> Option<String> {
    let is_wrong = !(1_000..=MAX_WAIT.as_millis()).contains(&ms.into());
    is_wrong.then(|| format!("`{field}` is from 1 second to 90 days"))
}

const fn attempts() -> u32 {
    ATTEMPTS_DEFAULT
}

const fn backoff() -> u64 {
    BACKOFF_DEFAULT_MS
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpCall {
    /// Default `POST`.
    #[serde(default = "post")]
    pub method: String,
    /// `http://` or `https://`.
    pub url: String,
    /// Sent along. A value may contain `{{ secret.NAME }}`, which the node that makes the call resolves.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

fn post() -> String {
    "POST".to_owned()
}

/// Who runs a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolSource {
    /// Holdpoint itself.
    BuiltIn,
    /// An operator has registered an HTTP call.
    #[default]
    Http,
    /// Nodes that offer it.
    Worker,
}

/// A tool as the API shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolView {
    /// What counts: the word of the operator and the registrations of the nodes together.
    #[serde(flatten)]
    pub tool: ToolSpec,
    #[serde(default)]
    pub source: ToolSource,
    /// Rises with every change.
    pub revision: u64,
    /// The revision of what nodes have registered. An operator that lowers a risk sends it back.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub seen: u64,
    /// False: it was registered so already.
    pub changed: bool,
    /// An operator has deleted the HTTP tool. A step on it fails, whatever nodes offer under its name.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub deleted: bool,
    /// Live nodes that offer it, at most [`NODES_SHOWN`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeName>,
    /// What nodes have registered, newest first. Lists omit it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offers: Vec<ToolOffer>,
    /// What operators have changed in this workspace, newest first. Lists omit it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ToolChange>,
}

impl ToolView {
    /// Without nodes, registrations and changes.
    #[must_use]
    pub const fn new(tool: ToolSpec, source: ToolSource, revision: u64) -> Self {
        Self {
            tool,
            source,
            revision,
            seen: 0,
            changed: false,
            deleted: false,
            nodes: Vec::new(),
            offers: Vec::new(),
            changes: Vec::new(),
        }
    }
}

/// Most live nodes that a view of a tool names.
pub const NODES_SHOWN: usize = 20;

/// One definition of a tool that nodes have registered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolOffer {
    /// As the nodes say it.
    #[serde(flatten)]
    pub tool: ToolSpec,
    /// The last nodes that have registered it so, oldest first.
    pub nodes: Vec<NodeName>,
    /// When a node registered it last.
    #[serde(with = "crate::instant")]
    pub registered_at: DateTime<Utc>,
}

/// A change of a tool by an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolChange {
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
    pub by: Actor,
    /// In words, such as `risk high → low`.
    pub change: String,
}

/// Registers what a node offers. A node takes no steps before the reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegisterTools {
    pub node: NodeName,
    /// 1 to 1,000, without `http`. A tool without `risk` counts as `high`.
    #[serde(deserialize_with = "read_offers")]
    pub tools: Vec<ToolSpec>,
}

/// A node of an older version may omit the risk. Such a tool starts only with an approval until an operator has decided,
/// and its mistake does not keep the other tools of the node out of the registry.
fn read_offers<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<ToolSpec>, D::Error> {
    let offers: Vec<Value> = Deserialize::deserialize(input)?;
    let read = |mut offer: Value| {
        if let Some(fields) = offer.as_object_mut() {
            let risk = fields.entry("risk").or_insert(Value::Null);
            if risk.is_null() {
                *risk = serde_json::to_value(Risk::High).map_err(D::Error::custom)?;
            }
        }
        serde_json::from_value(offer).map_err(D::Error::custom)
    };
    offers.into_iter().map(read).collect()
}

/// The reply to one registered tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RegisteredTool {
    /// The registry has it as the node says.
    Agreed,
    /// The registry keeps a higher risk, another schema or `idempotent: false`, until an operator changes that.
    Differs,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Gate: a missing risk is refused, and a node of an older version cannot start its tool by that.
    #[test]
    fn a_tool_without_a_risk_is_not_guessed() {
        let tool = json!({ "name": "crm.find" });
        let refused = serde_json::from_value::<ToolSpec>(tool.clone()).unwrap_err();
        assert!(refused.to_string().contains("missing field `risk`"));
        let other = json!({ "name": "crm.list", "risk": "low" });
        let offer = json!({ "node": "crm-1", "tools": [tool, other] });
        let offer: RegisterTools = serde_json::from_value(offer).unwrap();
        let risks: Vec<_> = offer.tools.iter().map(|tool| tool.risk).collect();
        assert_eq!(risks, [Risk::High, Risk::Low]);
    }
}
