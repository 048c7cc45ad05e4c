//! The answer about a step that may have happened.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    pub choice: Choice,
    pub by: String,
}

/// The possible answers about an uncertain step, in the order in which people are shown them.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Choice {
    /// It happened. The step is complete, without a result.
    ItHappened,
    /// It did not happen, or a repetition does no harm. The step is dispatched again.
    RunAgain,
    /// It is not known: the step fails.
    GiveUp,
}
