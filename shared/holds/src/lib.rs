//! Rules of holds that every door shares: REST, bus, agent definition and tool question.
//!
//! Owns limits, recipients and the validation of drafts. It does no I/O and knows no service, so that
//! all doors refuse the same drafts with the same words.

pub mod deadline;
mod hold_draft;
mod inactive_recipient;
pub mod json_schema;
pub mod ladder;
pub mod limits;
mod recipient;
pub mod redaction;
pub mod resolved_policies;
pub mod standing_approval;

#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;

pub use hold_draft::{HoldDraft, check_recipients, check_text, invalid_hold, sanitized};
pub use inactive_recipient::{
    ASSIGNEE_INACTIVE, POLICY_UNAVAILABLE, inactive_message, inactive_text,
};
pub use recipient::{InvalidRecipient, OWNERS, Recipient};
