//! What the plans of a planner may do, and how many steps the agent itself has.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Plan;

/// The steps of every agent with a planner: one calls it, and one starts its plan.
pub const PLANNER_STEPS: usize = 2;

/// Largest plan, in bytes of JSON. It must fit the arguments of an approval.
pub const PLAN_BYTES_MAX: usize = 63 * 1024;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Planner {
    /// The tools that a plan may call.
    pub tools: Vec<String>,
    /// The field `calendar` of the agent, for the waits of a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calendar: Option<Value>,
    /// The field `templates` of the agent, for the mails of a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub templates: Option<Value>,
}

impl Plan {
    /// Whether the step at an index calls the planner.
    #[must_use]
    pub const fn is_planner(&self, index: usize) -> bool {
        self.planner.is_some() && index == 0
    }
}
