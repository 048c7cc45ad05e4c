//! Dead letters: messages that a service could not handle, kept with the reason until an operator
//! replays or drops them.

use crate::subject::FIRST_WORKSPACE;
use chrono::{DateTime, Utc};
use holdpoint_ids::Workspace;
use serde::{Deserialize, Serialize};

use crate::{executor, handoff, notification, scheduler};

/// The services that keep dead letters.
pub const SERVICES: [&str; 4] = [
    executor::SERVICE,
    scheduler::SERVICE,
    handoff::SERVICE,
    notification::SERVICE,
];

/// An operator's request about a service's dead letters of one workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadLetterRequest {
    /// The newest ones, answered by a list of [`DeadLetterSummary`].
    List {
        /// Only letters with smaller ids.
        before: Option<i64>,
        /// The longest page.
        limit: u64,
    },
    /// One with its body, answered by a [`DeadLetter`].
    Show { id: i64 },
    /// Decide it again. The answer is that of the message; the letter is gone once that is committed.
    Replay { id: i64 },
    /// Remove it, answered by its [`DeadLetterSummary`].
    Drop { id: i64 },
}

/// A dead letter without its body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetterSummary {
    /// Within its service; newer ones have larger ids.
    pub id: i64,
    /// The message's subject, which names its workspace, service and verb.
    pub subject: String,
    /// Why it could not be handled.
    pub reason: String,
    /// When it was put aside.
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
    /// Size of its body.
    pub bytes: u64,
    /// Whether the process ended three times while it was decided alone.
    pub ended_the_process: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// All but the body.
    #[serde(flatten)]
    pub summary: DeadLetterSummary,
    /// As it came. It may hold what its sender kept secret.
    pub body: String,
    /// Whether only the beginning of the body is shown.
    pub truncated: bool,
}

/// The workspace that a dead letter belongs to, by its subject. One that names none belongs to the first
/// workspace.
#[must_use]
pub fn workspace_of(subject: &str) -> &str {
    let mut tokens = subject.split('.');
    let is_named = matches!(tokens.next(), Some("hp" | "desired_state"));
    let named = tokens.next().filter(|_| is_named);
    let is_name = |name: &&str| name.parse::<Workspace>().is_ok();
    named.filter(is_name).unwrap_or(FIRST_WORKSPACE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mend 6: the letters of one workspace are not shown in another.
    #[test]
    fn a_dead_letter_belongs_to_the_workspace_of_its_subject() {
        for (subject, workspace) in [
            ("hp.acme.cmd.executor.3.start_run", "acme"),
            ("desired_state.acme.hold.hold_1", "acme"),
            ("internal.executor", "default"),
            ("hp", "default"),
            ("", "default"),
        ] {
            assert_eq!(workspace_of(subject), workspace, "{subject}");
        }
    }
}
