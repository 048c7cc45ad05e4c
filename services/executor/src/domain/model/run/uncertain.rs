//! A step that may have happened, and what people are asked about it.

use chrono::{DateTime, Utc};
use holdpoint_ids::HoldId;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::domain::model::run::grant::StepGrant;

/// A step that may have happened, and the question whether it has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Uncertain {
    /// The grant that was never answered.
    pub working: StepGrant,
    /// The hold on people, which is its waker.
    pub hold: HoldId,
    pub since: DateTime<Utc>,
    /// The answer that came while the run was paused. It takes effect on resume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answered>,
    /// Whether the handoff service has refused a first question: this one has a fixed text and no context.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_minimal: bool,
}

/// A person's answer about an uncertain step.
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
