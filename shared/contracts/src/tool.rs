//! The tool registry: what operators and workers say of tools.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_ids::{NodeName, ToolName};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

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
    /// The call: arguments are the JSON body, a 2xx JSON response is the result. None: workers offer the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpCall>,
}

impl ToolSpec {
    /// Who runs it.
    #[must_use]
    pub const fn source(&self) -> ToolSource {
        match self.http {
            Some(_) => ToolSource::Http,
            None => ToolSource::Worker,
        }
    }
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
