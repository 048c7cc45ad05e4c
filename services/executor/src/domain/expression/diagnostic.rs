//! Why an expression is refused when its plan is made.

use super::value;

/// What an expression cannot be accepted for, when the plan is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The offending bit as it was written.
    pub text: String,
    /// What is wrong and what to write instead.
    pub message: String,
    /// Known names that look like the one that was written, best first.
    pub nearest: Vec<String>,
}

pub(super) fn complaint(text: &str, message: String) -> Diagnostic {
    Diagnostic {
        text: value::cut(text, 200),
        message,
        nearest: Vec::new(),
    }
}
