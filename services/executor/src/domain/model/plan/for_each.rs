//! `for_each` of a step: the items, and how many children are in progress at the same time.

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForEach {
    /// A placeholder, or a list.
    pub items: Value,
    /// Most children in progress.
    pub parallel: u32,
}
