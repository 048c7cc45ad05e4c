//! Why an expression or an agent is refused when its plan is made.

use holdpoint_contracts::problem::FieldError;

/// An error about the offending text as it was written. The message says what to write instead.
pub(in crate::domain) fn diagnostic(text: &str, message: impl Into<String>) -> FieldError {
    FieldError {
        text: text.to_owned(),
        message: message.into(),
        ..FieldError::default()
    }
}
