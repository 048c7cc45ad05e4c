//! The query of the built-in tool `send_email`.

use serde::{Deserialize, Serialize};

/// Finds the mail that a mail of a step in progress answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetMailThread {
    /// Token of the step. It gives access to the contact of its run only, until the step ends.
    pub token: String,
    /// The mail address of the recipient, in capitals or not.
    pub to: String,
}

/// The thread of the next mail.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailThread {
    /// The newest mail of the conversation, without angle brackets. Absent: the next mail begins a thread, because the
    /// run has sent no mail to its contact, or the recipient is not the contact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
}
