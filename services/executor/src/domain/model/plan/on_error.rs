//! What the failure of a step does to its run, as the author wrote it.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum OnError {
    /// The run fails.
    #[default]
    Fail,
    /// The run goes on, and the step reads as null.
    Continue,
    /// The remaining steps are skipped, and the run completes.
    SkipRest,
    /// The owners of the workspace get a handoff of the step.
    Handoff,
}
