//! Withdraws requests, and repeats those that ended without an answer.

use holdpoint_ids::HoldId;
use serde::{Deserialize, Serialize};

/// Repeats a request that ended without an answer, by a new standalone hold that names the old one
/// (`POST /requests/{id}/ask-again`). Only its requester, or an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskAgain {
    /// The new id: [`HoldId::asked_again`] of the old one, so that several callers open one hold. The service
    /// derives it, too, and ignores another id.
    pub id: HoldId,
    /// The one that ended: by time, taken back, or because its recipients are not active.
    pub again: HoldId,
    /// The recipients; none: those of the old one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<String>>,
    /// How long, in milliseconds: 1 s to 90 days; none: as long as the old one had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// Withdraws a standalone hold (`DELETE /holds/{id}`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WithdrawHold {
    pub id: HoldId,
    /// The version of the request that the caller has seen, if it matters to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}
