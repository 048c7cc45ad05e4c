//! Taking back what was asked, and asking again what ended without an answer.

use holdpoint_ids::HoldId;
use serde::{Deserialize, Serialize};

use super::{RequestView, SERVICE};
use crate::message::Command;

/// Asks again what ended without an answer, by a new hold that stands alone and names the old one
/// (`POST /requests/{id}/ask-again`). Only its requester, or an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskAgain {
    /// Of the new one: [`HoldId::asked_again`] of the old one, so that however many ask again, one is
    /// opened. The service derives it, too: another id that stands here counts as that one.
    pub id: HoldId,
    /// The one that ended: by time, taken back, or because its recipients are not active.
    pub again: HoldId,
    /// Whom; none: whom the old one was addressed to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<String>>,
    /// How long, in milliseconds: 1 s to 90 days; none: as long as the old one had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}
command!(AskAgain, "ask_again", RequestView, |it| it.id.to_string());

/// Takes a hold that stands alone back (`DELETE /holds/{id}`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WithdrawHold {
    /// The id.
    pub id: HoldId,
    /// The version of the request that the caller has seen, if it matters to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}
command!(WithdrawHold, "withdraw_hold", RequestView, |it| it
    .id
    .to_string());
