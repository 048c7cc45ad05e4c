//! Exit codes of the process, the same for every command.

use std::process::ExitCode;

/// How a command ended, as scripts see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ExitKind {
    Ok = 0,
    /// It failed, or the watched run failed.
    Failed = 1,
    Usage = 2,
    NotFound = 3,
    /// A rule or a person rejected it.
    Rejected = 4,
    /// It is not done in time.
    TimedOut = 5,
    /// Another user or program was first.
    Conflict = 6,
    Unreachable = 7,
    /// A tool asked people and ends until they answer.
    Parked = 75,
    Interrupted = 130,
}

impl ExitKind {
    pub(crate) const fn code(self) -> u8 {
        self as u8
    }

    /// The kind of an HTTP status that is not 2xx.
    pub(crate) const fn of_status(status: u16) -> Self {
        match status {
            404 => Self::NotFound,
            408 | 504 => Self::TimedOut,
            409 => Self::Conflict,
            400..=499 => Self::Rejected,
            _ => Self::Failed,
        }
    }

    /// The common kind of several results; different failures are simply `Failed`.
    pub(crate) fn of_many(kinds: impl IntoIterator<Item = Self>) -> Self {
        let failures = kinds.into_iter().filter(|kind| *kind != Self::Ok);
        let merge = |one: Self, other| if one == other { one } else { Self::Failed };
        failures.reduce(merge).unwrap_or(Self::Ok)
    }
}

impl From<ExitKind> for ExitCode {
    fn from(kind: ExitKind) -> Self {
        Self::from(kind.code())
    }
}

/// An invalid command line; the message says what is allowed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_results_end_with_their_common_code_or_as_failed() {
        use ExitKind::{Conflict, Failed, NotFound, Ok};
        assert_eq!(ExitKind::of_many([Ok, Ok]), Ok);
        assert_eq!(ExitKind::of_many([Ok, Conflict, Conflict]), Conflict);
        assert_eq!(ExitKind::of_many([NotFound, Conflict, Conflict]), Failed);
    }
}
