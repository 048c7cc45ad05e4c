//! What can go wrong between a command and Holdpoint, by what the person can do about it.

use holdpoint_contracts::Problem;
use serde::Deserialize;

use crate::exit::Outcome;
use crate::output;

/// Longest part of an unexpected answer that is shown, in characters.
const SHOWN_MAX: usize = 300;

/// Why there is no answer to use.
#[derive(Debug, Clone)]
pub(crate) enum ClientError {
    /// Holdpoint said no: mend what was asked.
    Refused {
        /// Why.
        problem: Box<Problem>,
        /// The body verbatim; empty when nothing was sent at all.
        text: String,
    },
    /// Taken, but whoever has to carry it out is down: look again later.
    Accepted {
        /// To ask after.
        command: String,
        /// The body verbatim.
        text: String,
    },
    /// Nobody answers there: start it, or mend the address.
    Unreachable {
        /// The address.
        url: String,
        /// What the connection said.
        reason: String,
    },
    /// No answer in time: asking again is safe.
    TimedOut,
    /// The answer is not what this version knows: compare versions.
    NotUnderstood {
        /// What is odd about it.
        reason: String,
    },
    /// The address is none.
    Address {
        /// As it was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
}

#[derive(Deserialize)]
struct Accepted {
    command_id: String,
}

impl ClientError {
    /// The code that the process ends with.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Self::Refused { problem, .. } => Outcome::of_status(problem.status),
            Self::Accepted { .. } | Self::TimedOut => Outcome::TimedOut,
            Self::Unreachable { .. } => Outcome::Unreachable,
            Self::NotUnderstood { .. } => Outcome::Failed,
            Self::Address { .. } => Outcome::Usage,
        }
    }

    /// The body of a refusal, for programs.
    pub(crate) fn body(&self) -> Option<&str> {
        match self {
            Self::Refused { text, .. } => Some(text.as_str()).filter(|text| !text.is_empty()),
            Self::Accepted { text, .. } => Some(text.as_str()),
            Self::Unreachable { .. }
            | Self::TimedOut
            | Self::NotUnderstood { .. }
            | Self::Address { .. } => None,
        }
    }

    /// The problem that a program reads in place of a result.
    pub(crate) fn problem(&self) -> Problem {
        match self {
            Self::Refused { problem, .. } => (**problem).clone(),
            Self::Unreachable { .. } => Problem::new(503, "unreachable", self.to_string()),
            Self::Accepted { .. } => Problem::new(504, "not_done_yet", self.to_string()),
            Self::TimedOut => Problem::new(504, "timed_out", self.to_string()),
            Self::NotUnderstood { .. } => Problem::new(500, "not_understood", self.to_string()),
            Self::Address { .. } => Problem::new(400, "invalid_url", self.to_string()),
        }
    }

    pub(super) fn address(url: &str, reason: &impl std::fmt::Display) -> Self {
        Self::Address {
            url: url.to_owned(),
            reason: reason.to_string(),
        }
    }

    /// The innermost cause says it best: `Connection refused`.
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

    pub(super) fn accepted(text: &str) -> Self {
        match serde_json::from_str::<Accepted>(text) {
            Ok(accepted) => Self::Accepted {
                command: accepted.command_id,
                text: text.to_owned(),
            },
            Err(error) => Self::NotUnderstood {
                reason: error.to_string(),
            },
        }
    }

    /// What is no problem in JSON comes from something in between: it is shown as it came.
    pub(super) fn refused(status: u16, text: String) -> Self {
        let problem = serde_json::from_str(&text).unwrap_or_else(|_no_problem| {
            let shown: String = text.chars().take(SHOWN_MAX).collect();
            Problem::new(
                status,
                "unexpected_answer",
                format!("HTTP {status}: {}", shown.trim()),
            )
        });
        Self::Refused {
            problem: Box::new(problem),
            text,
        }
    }
}

impl From<Problem> for ClientError {
    fn from(problem: Problem) -> Self {
        Self::Refused {
            problem: Box::new(problem),
            text: String::new(),
        }
    }
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused { problem, .. } => f.write_str(&output::problem_text(problem)),
            Self::Accepted { command, .. } => write!(
                f,
                "accepted as {command} and stored; it will be done when the service that does it is \
                 back (`GET /commands/{command}` tells)"
            ),
            Self::Unreachable { url, reason } => {
                write!(
                    f,
                    "cannot reach {url} ({reason}); is `holdpoint up` running?"
                )
            }
            Self::TimedOut => f.write_str("no answer in time; asking again is safe"),
            Self::NotUnderstood { reason } => write!(
                f,
                "the answer is not what this version of holdpoint knows: {reason}"
            ),
            Self::Address { url, reason } => write!(f, "`{url}` is no address: {reason}"),
        }
    }
}

impl std::error::Error for ClientError {}
