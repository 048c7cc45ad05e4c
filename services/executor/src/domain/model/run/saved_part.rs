//! What a step knows of its part of a snapshot.

use serde::{Deserialize, Serialize};

use crate::domain::model::is_default;

/// What the last call of a step saved at a suspension, as far as the run knows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedPart {
    /// The last dispatch whose node has asked for it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub continued_by: u64,
}
