//! Errors between a command and Holdpoint, sorted by what the user can do.

use holdpoint_contracts::Problem;
use serde::Deserialize;

use crate::exit::{ExitKind, Usage};
use crate::output;

/// Longest part of an unexpected response that is shown, in characters.
const SHOWN_MAX: usize = 300;

#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum ClientError {
    /// Holdpoint refused: change the request.
    #[error("{}", output::problem_text(problem))]
    Refused {
        problem: Box<Problem>,
        /// The body verbatim; empty if nothing was sent.
        text: String,
    },
    /// The command is stored, but the service that handles it is down: check again later.
    #[error(
        "accepted as {command}; it will be done when the service that handles it is back \
         (see `GET /commands/{command}`)"
    )]
    Accepted {
        command: String,
        /// The body verbatim.
        text: String,
    },
    /// Start Holdpoint, or correct the address.
    #[error("cannot reach {url} ({reason}); is `holdpoint up` running?")]
    Unreachable { url: String, reason: String },
    #[error("no response in time; it is safe to send the command again")]
    TimedOut,
    #[error("unexpected response; is this the same version as the server? ({reason})")]
    NotUnderstood { reason: String },
    #[error("invalid address `{url}`: {reason}")]
    Address { url: String, reason: String },
}

#[derive(Deserialize)]
struct Accepted {
    command_id: String,
}

impl ClientError {
    pub(crate) fn exit_kind(&self) -> ExitKind {
        match self {
            Self::Refused { problem, .. } => ExitKind::of_status(problem.status),
            Self::Accepted { .. } | Self::TimedOut => ExitKind::TimedOut,
            Self::Unreachable { .. } => ExitKind::Unreachable,
            Self::NotUnderstood { .. } => ExitKind::Failed,
            Self::Address { .. } => ExitKind::Usage,
        }
    }

    /// The body of the response, for programs.
    pub(crate) fn body(&self) -> Option<&str> {
        match self {
            Self::Refused { text, .. } | Self::Accepted { text, .. } => {
                Some(text.as_str()).filter(|text| !text.is_empty())
            }
            Self::Unreachable { .. }
            | Self::TimedOut
            | Self::NotUnderstood { .. }
            | Self::Address { .. } => None,
        }
    }

    /// The problem that a program reads in place of a result.
    pub(crate) fn problem(&self) -> Problem {
        let (status, code) = match self {
            Self::Refused { problem, .. } => return (**problem).clone(),
            Self::Unreachable { .. } => (503, "unreachable"),
            Self::Accepted { .. } => (504, "not_done_yet"),
            Self::TimedOut => (504, "timed_out"),
            Self::NotUnderstood { .. } => (500, "not_understood"),
            Self::Address { .. } => (400, "invalid_url"),
        };
        Problem::new(status, code, self.to_string())
    }

    pub(super) fn address(url: &str, reason: &impl std::fmt::Display) -> Self {
        Self::Address {
            url: url.to_owned(),
            reason: reason.to_string(),
        }
    }

    /// Shows the innermost cause, which names the reason best: `Connection refused`.
    pub(super) fn unreachable(url: &str, error: &dyn std::error::Error) -> Self {
        let mut innermost = error;
        while let Some(cause) = innermost.source() {
            innermost = cause;
        }
        Self::Unreachable {
            url: url.to_owned(),
            reason: innermost.to_string(),
        }
    }

    pub(super) fn accepted(text: String) -> Self {
        match serde_json::from_str::<Accepted>(&text) {
            Ok(Accepted { command_id }) => Self::Accepted {
                command: command_id,
                text,
            },
            Err(error) => error.into(),
        }
    }

    /// A body that is not a problem in JSON comes from a proxy and is shown as it is.
    pub(super) fn refused(status: u16, text: String) -> Self {
        let problem = serde_json::from_str(&text).unwrap_or_else(|_not_a_problem| {
            let shown: String = text.chars().take(SHOWN_MAX).collect();
            let detail = format!("HTTP {status}: {}", shown.trim());
            Problem::new(status, "unexpected_answer", detail)
        });
        Self::Refused {
            problem: Box::new(problem),
            text,
        }
    }
}

/// How a command ends that fails with an error.
pub(crate) fn exit_kind_of(error: &anyhow::Error) -> ExitKind {
    if error.is::<Usage>() {
        return ExitKind::Usage;
    }
    let mut causes = error.chain();
    let client_error = causes.find_map(|cause| cause.downcast_ref::<ClientError>());
    client_error.map_or(ExitKind::Failed, ClientError::exit_kind)
}

impl From<Problem> for ClientError {
    fn from(problem: Problem) -> Self {
        Self::Refused {
            problem: Box::new(problem),
            text: String::new(),
        }
    }
}

impl From<serde_json::Error> for ClientError {
    fn from(error: serde_json::Error) -> Self {
        Self::NotUnderstood {
            reason: error.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
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
            assert_eq!(exit_kind_of(&error.into()).code(), code, "{status}");
        }
    }

    #[test]
    fn other_errors_end_with_the_code_of_their_kind() {
        let unreachable = ClientError::Unreachable {
            url: "http://h".to_owned(),
            reason: String::new(),
        };
        assert_eq!(exit_kind_of(&unreachable.into()).code(), 7);
        assert_eq!(
            exit_kind_of(&anyhow::Error::new(ClientError::TimedOut)).code(),
            5
        );
        assert_eq!(exit_kind_of(&anyhow::anyhow!("disk")).code(), 1);
        let usage = anyhow::Error::new(Usage("no".to_owned())).context("x");
        assert_eq!(exit_kind_of(&usage).code(), 2);
        assert_eq!(ExitKind::Interrupted.code(), 130);
        assert_eq!(ExitKind::Parked.code(), 75);
    }
}
