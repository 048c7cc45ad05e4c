//! Answers to two questions of a pause: which runs that wait it cancels, and which new ones it accepts.

use serde::{Deserialize, Serialize};

/// The effect of a pause of an agent or workspace on waiting runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseWaiting {
    /// They stay `waiting`, with their clocks stopped.
    #[default]
    Hold,
    /// They are cancelled: `Agent paused manually` (S0-T6.3).
    Cancel,
}

/// The effect of a pause of an agent or workspace on new runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseNew {
    /// They are accepted and paused.
    #[default]
    Accept,
    /// Refused with 409 `agent_paused`.
    Refuse,
}
