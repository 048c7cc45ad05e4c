//! How long a hold waits (S0-T1, S3-R1, S3-R7).

use std::ops::RangeInclusive;

use holdpoint_contracts::run::HoldKind;

/// Shortest and longest timeout, in milliseconds: 1 second and 90 days.
pub const TIMEOUT_MS: RangeInclusive<u64> = 1_000..=90 * 86_400_000;

/// Timeout of a handoff that never ends by itself.
pub const NO_END: u64 = 0;

/// Range of a timeout, a wait and the time of a rung.
pub const RANGE_TEXT: &str = "expected 1 second to 90 days";

/// Timeout in milliseconds where neither the caller nor a policy states one: 5 minutes for an input,
/// 7 days otherwise.
#[must_use]
pub const fn default_timeout_ms(kind: HoldKind) -> u64 {
    match kind {
        HoldKind::Input => 5 * 60_000,
        HoldKind::Approval
        | HoldKind::Handoff
        | HoldKind::Timer
        | HoldKind::Signal
        | HoldKind::ChildRun => 7 * 86_400_000,
    }
}

/// Why a timeout is refused, if it is.
#[must_use]
pub fn timeout_error(kind: HoldKind, timeout_ms: u64) -> Option<&'static str> {
    let is_endless = kind == HoldKind::Handoff && timeout_ms == NO_END;
    if is_endless || TIMEOUT_MS.contains(&timeout_ms) {
        return None;
    }
    Some(match kind {
        HoldKind::Handoff => "expected 1 second to 90 days, or 0 for no automatic end",
        HoldKind::Timer
        | HoldKind::Approval
        | HoldKind::Input
        | HoldKind::Signal
        | HoldKind::ChildRun => RANGE_TEXT,
    })
}
