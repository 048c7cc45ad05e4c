//! How a request ends whose recipient does not exist or is disabled (S0-R1).

use std::fmt;

use holdpoint_contracts::run::HoldKind;

/// Code with which the step of the request fails.
pub const ASSIGNEE_INACTIVE: &str = "assignee_inactive";

/// Code with which a gated step fails if the policies of its approval cannot be applied (S2-R4).
pub const POLICY_UNAVAILABLE: &str = "policy_unavailable";

/// The literal text of S0-R1.
#[must_use]
pub fn inactive_text(name: &impl fmt::Display) -> String {
    format!("User {name} not found or inactive in workspace")
}

/// The message of a request of this kind that ends because of an inactive user.
#[must_use]
pub fn inactive_message(kind: HoldKind, name: &impl fmt::Display) -> String {
    let inactive = inactive_text(name);
    match kind {
        HoldKind::Handoff => format!("Handoff failed: {inactive}"),
        HoldKind::Approval
        | HoldKind::Input
        | HoldKind::Timer
        | HoldKind::Signal
        | HoldKind::ChildRun => inactive,
    }
}
