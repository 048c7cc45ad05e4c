//! Registered tools.

use std::collections::BTreeMap;

use holdpoint_ids::ToolName;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How much harm a tool can do (S2-R2).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// None worth speaking of.
    Low,
    /// Some.
    #[default]
    Medium,
    /// Never without an approval (S2-R3).
    High,
}

/// A tool as it is registered (`POST /tools`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSpec {
    /// The name in steps.
    pub name: ToolName,
    /// The tool's version; free text.
    pub version: Option<String>,
    /// How much harm it can do.
    #[serde(default)]
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
    /// The call: arguments are the JSON body, a 2xx JSON response is the result.
    pub http: HttpCall,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpCall {
    /// Default `POST`.
    #[serde(default = "post")]
    pub method: String,
    /// `http://` or `https://`.
    pub url: String,
    /// Sent along; a secret belongs in a credential, not here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

fn post() -> String {
    "POST".to_owned()
}

/// A registered tool as the API shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolView {
    /// As it was registered.
    #[serde(flatten)]
    pub tool: ToolSpec,
    /// Rises with every change.
    pub revision: u64,
    /// False: it was registered so already.
    pub changed: bool,
}
