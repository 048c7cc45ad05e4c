//! What an owner's state and a wish come to: the nine cells of DESIGN, "Four messages hold it
//! together", with a row for what is unknown and one for what is gone.

use chrono::{DateTime, Utc};
use holdpoint_contracts::hold::Want;

/// Where the owner's row stands, as far as a wish is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerState {
    /// There is no row.
    Unknown,
    /// Open or frozen: nobody has decided, and time is not up.
    Standing,
    /// A person has decided.
    Decided,
    /// Time was up, at this instant.
    TimedOut(DateTime<Utc>),
    /// It was not wanted any more.
    Gone,
}

/// What is done with a wish whose `rev` is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell {
    /// A row is made in the wanted state.
    Create,
    /// The wanted state is the owner's state from now on.
    TakeOver,
    /// It is gone; the row stays as a tombstone.
    Withdraw,
    /// The person's decision stays, and the executor is told again.
    DecisionStaysAndIsToldAgain,
    /// The person's decision stays, and takes effect on resume; the executor is told again.
    DecisionTakesEffectOnResume,
    /// The person's decision stays, marked: the run ended first.
    DecisionStaysRunEnded,
    /// The time-out stays, and the executor is told again.
    TimeOutStaysAndIsToldAgain,
    /// The pause was before the time-out, or a deadline behind it: frozen again, and a late answer
    /// becomes the answer.
    FreezeAgain,
    /// The deadline was moved behind the time-out: open again.
    OpenAgain,
}

/// Every cell. A new state or wish must be thought about here.
#[must_use]
pub fn meet(owner: OwnerState, want: &Want) -> Cell {
    match (owner, want) {
        (OwnerState::Unknown, Want::Open { .. } | Want::Frozen { .. } | Want::Gone { .. }) => {
            Cell::Create
        }
        (OwnerState::Standing | OwnerState::Gone, Want::Open { .. } | Want::Frozen { .. }) => {
            Cell::TakeOver
        }
        (OwnerState::Standing | OwnerState::Gone | OwnerState::TimedOut(_), Want::Gone { .. }) => {
            Cell::Withdraw
        }
        (OwnerState::Decided, Want::Open { .. }) => Cell::DecisionStaysAndIsToldAgain,
        (OwnerState::Decided, Want::Frozen { .. }) => Cell::DecisionTakesEffectOnResume,
        (OwnerState::Decided, Want::Gone { .. }) => Cell::DecisionStaysRunEnded,
        (OwnerState::TimedOut(at), Want::Open { deadline, .. }) => {
            if deadline.is_none_or(|deadline| deadline > at) {
                Cell::OpenAgain
            } else {
                Cell::TimeOutStaysAndIsToldAgain
            }
        }
        (
            OwnerState::TimedOut(at),
            Want::Frozen {
                since,
                remaining_ms,
                ..
            },
        ) => {
            // Time that is left behind a time-out is the time to a later deadline.
            if *since < at || *remaining_ms != Some(0) {
                Cell::FreezeAgain
            } else {
                Cell::TimeOutStaysAndIsToldAgain
            }
        }
    }
}
