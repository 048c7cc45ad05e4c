//! How a desired state changes a hold at the service that owns it: the table of `docs/holds.md`.

use chrono::{DateTime, Utc};
use holdpoint_contracts::hold::HoldState;

use crate::domain::model::request::{Phase, Request};

/// The state of the owner's row, as far as the merge depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerState {
    /// No row exists.
    Unknown,
    /// People may still decide.
    Open,
    /// A person has decided.
    Decided,
    /// The request timed out at this instant.
    TimedOut(DateTime<Utc>),
    /// The row is a tombstone.
    Withdrawn,
}

impl OwnerState {
    #[must_use]
    pub const fn of(request: Option<&Request>) -> Self {
        let Some(request) = request else {
            return Self::Unknown;
        };
        match &request.phase {
            Phase::Open { .. } | Phase::Frozen { .. } => Self::Open,
            Phase::Decided { .. } => Self::Decided,
            Phase::TimedOut { at } => Self::TimedOut(*at),
            Phase::Withdrawn { .. } => Self::Withdrawn,
        }
    }
}

/// What a desired state with a new `rev` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeAction {
    /// Creates the row in the desired state.
    Create,
    /// The row adopts the desired state.
    Adopt,
    /// The row becomes a tombstone.
    Withdraw,
    /// The decision stays, and the executor gets it again.
    KeepDecisionAndResend,
    /// The decision stays and takes effect on resume; the executor gets it again.
    KeepDecisionUntilResume,
    /// The decision stays with the mark that the run ended first.
    KeepDecisionRunEnded,
    /// The timeout stays, and the executor gets it again.
    KeepTimeoutAndResend,
    /// The pause was before the timeout, or the deadline is after it: the row is frozen again, and a late
    /// answer becomes the answer.
    Refreeze,
    /// The deadline was moved after the timeout: the row is open again.
    Reopen,
}

/// Every cell. An erasure is merged like a withdrawal, and then empties the row. A new state or desired state must be thought about here.
#[must_use]
pub fn merge_desired_state(owner: OwnerState, state: &HoldState) -> MergeAction {
    match (owner, state) {
        (
            OwnerState::Unknown,
            HoldState::Open { .. }
            | HoldState::Frozen { .. }
            | HoldState::Withdrawn { .. }
            | HoldState::Erased { .. },
        ) => MergeAction::Create,
        (
            OwnerState::Open | OwnerState::Withdrawn,
            HoldState::Open { .. } | HoldState::Frozen { .. },
        ) => MergeAction::Adopt,
        (
            OwnerState::Open | OwnerState::Withdrawn | OwnerState::TimedOut(_),
            HoldState::Withdrawn { .. } | HoldState::Erased { .. },
        ) => MergeAction::Withdraw,
        (OwnerState::Decided, HoldState::Open { .. }) => MergeAction::KeepDecisionAndResend,
        (OwnerState::Decided, HoldState::Frozen { .. }) => MergeAction::KeepDecisionUntilResume,
        (OwnerState::Decided, HoldState::Withdrawn { .. } | HoldState::Erased { .. }) => {
            MergeAction::KeepDecisionRunEnded
        }
        (OwnerState::TimedOut(at), HoldState::Open { deadline, .. }) => {
            if deadline.is_none_or(|deadline| deadline > at) {
                MergeAction::Reopen
            } else {
                MergeAction::KeepTimeoutAndResend
            }
        }
        (
            OwnerState::TimedOut(at),
            HoldState::Frozen {
                since,
                remaining_ms,
                ..
            },
        ) => {
            // Time left after a timeout means that the deadline was moved to later.
            if *since < at || *remaining_ms != Some(0) {
                MergeAction::Refreeze
            } else {
                MergeAction::KeepTimeoutAndResend
            }
        }
    }
}
