//! The limits of an agent: what one run may use, and how many runs may start.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Most runs of an agent, or of one key of it, at the same time.
pub const PLACES_MAX: u32 = 1_000;

/// Most starts of a rate.
pub const RATE_STARTS_MAX: u32 = 1_000;

/// How far ahead a rate reserves starts, in milliseconds: 366 days.
pub const START_AHEAD_MAX_MS: u64 = 366 * 86_400_000;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Concurrency>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub once: Option<Once>,
}

/// How many runs may start within a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// 1 to [`RATE_STARTS_MAX`].
    pub starts: u32,
    pub per_ms: u64,
    /// As for [`Concurrency::key`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Value>,
}

/// What a run may use before people are asked whether it continues.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// Calls of tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_time_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_time_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Whom to ask; empty: the owners of the workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
}

/// How many runs may be in progress at the same time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Concurrency {
    /// 1 to [`PLACES_MAX`].
    pub runs: u32,
    /// Runs with different values do not count together; none: all runs of the agent do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Value>,
}

/// Which starts are the same one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Once {
    /// Those for the same contact.
    Contact,
    /// Those with the same value.
    Key(Value),
}
