//! Every way to say no, and how it is told.

use holdpoint_contracts::Problem;
use holdpoint_ids::NotificationId;

/// Why something was not done.
#[derive(Debug, Clone, PartialEq)]
pub enum Refusal {
    /// The caller has no such notification; perhaps somebody else has.
    NoNotification(NotificationId),
}

impl Refusal {
    /// How it is told.
    #[must_use]
    pub fn problem(&self) -> Problem {
        match self {
            Self::NoNotification(id) => {
                Problem::not_found(format!("you have no notification `{id}`"))
            }
        }
    }
}
