//! Limits of a hold. Every door refuses the same drafts with the same words.

/// Longest question, message, comment, reason and notes, in characters.
pub const QUESTION_CHARS_MAX: usize = 10_000;

/// Most options of a question; a question has none, or at least two.
pub const OPTIONS_MAX: usize = 100;

/// Longest option, in characters.
pub const OPTION_CHARS_MAX: usize = 200;

/// Most recipients of a request.
pub const RECIPIENTS_MAX: usize = 50;
