//! How the process ends: one code for each kind of outcome, the same for every command.

use std::process::ExitCode;

use crate::client::ClientError;

/// How it went, as scripts see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Done.
    Ok,
    /// It went wrong, or the run that was followed failed.
    Failed,
    /// Asked for in a way that makes no sense.
    Usage,
    /// There is no such thing.
    NotFound,
    /// Rules or a person said no.
    Rejected,
    /// Not done in time.
    TimedOut,
    /// Somebody or something was first.
    Conflict,
    /// Nobody answers at that address.
    Unreachable,
    /// A tool has asked people, and parks until they answer.
    Parked,
    /// Ctrl-c.
    Interrupted,
}

impl Outcome {
    /// The number that the process ends with.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Rejected => 4,
            Self::TimedOut => 5,
            Self::Conflict => 6,
            Self::Unreachable => 7,
            Self::Parked => 75,
            Self::Interrupted => 130,
        }
    }

    /// What an HTTP status of a refusal means here.
    pub(crate) const fn of_status(status: u16) -> Self {
        match status {
            404 => Self::NotFound,
            408 | 504 => Self::TimedOut,
            409 => Self::Conflict,
            400..=499 => Self::Rejected,
            _ => Self::Failed,
        }
    }

    /// What an error means here.
    pub(crate) fn of_error(error: &anyhow::Error) -> Self {
        if error.is::<Usage>() {
            return Self::Usage;
        }
        match error
            .chain()
            .find_map(|cause| cause.downcast_ref::<ClientError>())
        {
            Some(error) => error.outcome(),
            None => Self::Failed,
        }
    }

    /// Of many: all the same, or simply failed.
    pub(crate) fn of_many(outcomes: impl IntoIterator<Item = Self>) -> Self {
        let mut worst = Self::Ok;
        for outcome in outcomes.into_iter().filter(|outcome| *outcome != Self::Ok) {
            worst = if worst == Self::Ok || worst == outcome {
                outcome
            } else {
                Self::Failed
            };
        }
        worst
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(outcome.code())
    }
}

/// What was asked for makes no sense; the message says what would.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

#[cfg(test)]
mod tests {
    use holdpoint_contracts::Problem;

    use super::*;

    #[test]
    fn a_refusal_ends_with_the_code_of_its_kind() {
        let cases = [
            (400, 4),
            (401, 4),
            (403, 4),
            (404, 3),
            (409, 6),
            (422, 4),
            (408, 5),
            (500, 1),
            (503, 1),
        ];
        for (status, code) in cases {
            let error = ClientError::from(Problem::new(status, "code", "detail"));
            assert_eq!(Outcome::of_error(&error.into()).code(), code, "{status}");
        }
    }

    #[test]
    fn other_errors_end_with_theirs() {
        let unreachable = ClientError::Unreachable {
            url: "http://h".to_owned(),
            reason: String::new(),
        };
        assert_eq!(Outcome::of_error(&unreachable.into()).code(), 7);
        assert_eq!(
            Outcome::of_error(&anyhow::Error::new(ClientError::TimedOut)).code(),
            5
        );
        assert_eq!(Outcome::of_error(&anyhow::anyhow!("disk")).code(), 1);
        let usage = anyhow::Error::new(Usage("no".to_owned())).context("x");
        assert_eq!(Outcome::of_error(&usage).code(), 2);
        assert_eq!(Outcome::Interrupted.code(), 130);
    }

    #[test]
    fn many_end_alike_or_as_failed() {
        use Outcome::{Conflict, Failed, NotFound, Ok};
        assert_eq!(Outcome::of_many([Ok, Ok]), Ok);
        assert_eq!(Outcome::of_many([Ok, Conflict, Conflict]), Conflict);
        assert_eq!(Outcome::of_many([NotFound, Conflict, Conflict]), Failed);
    }
}
