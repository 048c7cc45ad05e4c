//! The beginning of a text that a caller sent, for error messages.

/// Longest excerpt, in characters.
const LENGTH_MAX: usize = 120;

/// As much of a text as an answer repeats.
pub(crate) fn excerpt(text: &str) -> String {
    text.chars().take(LENGTH_MAX).collect()
}
