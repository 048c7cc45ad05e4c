//! Answers to two questions of a pause: which runs that wait it cancels, and which new ones it accepts.

use serde::{Deserialize, Serialize};

/// What a pause of many does to those that wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseWaiting {
    /// They stay `waiting`, with their clocks stopped.
    #[default]
    Hold,
    /// They are cancelled: `Agent paused manually` (S0-T6.3).
    Cancel,
}

impl PauseWaiting {
    /// Whether it is the default; a message leaves it out then.
    #[must_use]
    pub const fn is_hold(&self) -> bool {
        matches!(self, Self::Hold)
    }
}

/// What a pause of many does to runs that are started meanwhile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseNew {
    /// Accepted, and stand paused.
    #[default]
    Accept,
    /// Refused with 409 `agent_paused`.
    Refuse,
}
