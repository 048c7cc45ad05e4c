//! What an owner's state and a desired state come to: the nine cells of DESIGN, "Four messages hold it
//! together", with a row for what is unknown and one for what is gone.

use chrono::{DateTime, Utc};
use holdpoint_contracts::hold::HoldState;

/// Where the owner's row stands, as far as a desired state is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerState {
    /// There is no row.
    Unknown,
    /// Open or frozen: nobody has decided, and time is not up.
    Open,
    /// A person has decided.
    Decided,
    /// Time was up, at this instant.
    TimedOut(DateTime<Utc>),
    /// It was not wanted any more.
    Withdrawn,
}

/// What is done with a desired state whose `rev` is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeAction {
    /// A row is made in the wanted state.
    Create,
    /// The wanted state is the owner's state from now on.
    TakeOver,
    /// It is gone; the row stays as a tombstone.
    Withdraw,
    /// The person's decision stays, and the executor is told again.
    KeepDecisionAndResend,
    /// The person's decision stays, and takes effect on resume; the executor is told again.
    KeepDecisionUntilResume,
    /// The person's decision stays, marked: the run ended first.
    KeepDecisionRunEnded,
    /// The timeout stays, and the executor is told again.
    KeepTimeoutAndResend,
    /// The pause was before the timeout, or a deadline behind it: frozen again, and a late answer
    /// becomes the answer.
    Refreeze,
    /// The deadline was moved behind the timeout: open again.
    Reopen,
}

/// Every cell. A new state or desired state must be thought about here.
#[must_use]
pub fn merge_desired_state(owner: OwnerState, state: &HoldState) -> MergeAction {
    match (owner, state) {
        (
            OwnerState::Unknown,
            HoldState::Open { .. } | HoldState::Frozen { .. } | HoldState::Withdrawn { .. },
        ) => MergeAction::Create,
        (
            OwnerState::Open | OwnerState::Withdrawn,
            HoldState::Open { .. } | HoldState::Frozen { .. },
        ) => MergeAction::TakeOver,
        (
            OwnerState::Open | OwnerState::Withdrawn | OwnerState::TimedOut(_),
            HoldState::Withdrawn { .. },
        ) => MergeAction::Withdraw,
        (OwnerState::Decided, HoldState::Open { .. }) => MergeAction::KeepDecisionAndResend,
        (OwnerState::Decided, HoldState::Frozen { .. }) => MergeAction::KeepDecisionUntilResume,
        (OwnerState::Decided, HoldState::Withdrawn { .. }) => MergeAction::KeepDecisionRunEnded,
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
            // Time that is left behind a timeout is the time to a later deadline.
            if *since < at || *remaining_ms != Some(0) {
                MergeAction::Refreeze
            } else {
                MergeAction::KeepTimeoutAndResend
            }
        }
    }
}
