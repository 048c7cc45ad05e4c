//! Limits of a hold. Every door refuses the same drafts with the same words.

use std::ops::RangeInclusive;

pub use holdpoint_contracts::form::{ANSWER_BYTES_MAX, FIELDS_MAX};

/// Longest question, message, comment, reason and notes, in characters.
pub const TEXT_CHARS_MAX: usize = 10_000;

/// Number of options of a question that has any.
pub const OPTIONS: RangeInclusive<usize> = 2..=100;

/// Longest option, in characters.
pub const OPTION_CHARS_MAX: usize = 200;

/// Most recipients of a request or a rung.
pub const RECIPIENTS_MAX: usize = 50;

/// Longest name of the requester, in bytes.
pub const REQUESTER_BYTES_MAX: usize = 300;

/// Largest context of a request, in bytes of JSON.
pub const CONTEXT_BYTES_MAX: usize = 128 * 1024;

/// Longest title, in bytes.
pub const TITLE_BYTES_MAX: usize = 1_000;

/// Largest task, in bytes of JSON.
pub const TASK_BYTES_MAX: usize = 16 * 1024;

/// Longest callback address, in bytes.
pub const CALLBACK_BYTES_MAX: usize = 2 * 1024;

/// Most rungs of a ladder.
pub const RUNGS_MAX: usize = 20;

/// Most approvals that a request may need.
pub const NEED_MAX: u32 = 20;

/// Most policies that a request names: one for approval and one for escalation.
pub const POLICIES_MAX: usize = 2;

/// Most errors of a draft that are listed.
pub const ERRORS_MAX: usize = 100;

/// Largest arguments that people approve, in bytes of JSON: the request shows all of them.
pub const APPROVED_ARGS_BYTES_MAX: usize = 64 * 1024;
