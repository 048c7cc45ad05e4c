//! `patch_context`: what later steps of a run see as its input.

use holdpoint_ids::RunId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Changes the context of a live run (RFC 7386 merge patch). Steps that have begun keep what they have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatchContext {
    pub run: RunId,
    /// `null` removes a field.
    pub patch: Map<String, Value>,
}
