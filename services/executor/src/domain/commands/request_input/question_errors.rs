//! Validation of a tool's question: all errors at once, with pointers into the question.

use holdpoint_contracts::asking::ToolQuestion;
use holdpoint_contracts::hold::{HoldSpec, OnTimeout};
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::run::HoldKind;
use holdpoint_holds::HoldDraft;

/// Longest key, in characters.
const KEY_CHARS_MAX: usize = 200;

/// The shared validation, and what only a tool's question has.
pub(super) fn question_errors(asked: &ToolQuestion) -> Vec<FieldError> {
    let spec = HoldSpec {
        options: asked.options.clone(),
        schema: asked.schema.clone(),
        link: asked.link.clone(),
        to: asked.to.clone(),
        on_timeout: asked.on_timeout,
        default: asked.default.clone(),
        ..HoldSpec::asking(HoldKind::Input, asked.question.clone())
    };
    let draft = HoldDraft {
        spec: &spec,
        timeout_ms: Some(asked.timeout_ms),
    };
    let mut errors = draft.validate();
    if asked.on_timeout == OnTimeout::Continue {
        let message = "expected fail, skip, escalate or default";
        errors.push(FieldError::at("/on_timeout", message));
    }
    let is_key = |key: &str| {
        (1..=KEY_CHARS_MAX).contains(&key.chars().count()) && !key.chars().any(char::is_control)
    };
    if asked.key.as_deref().is_some_and(|key| !is_key(key)) {
        let message =
            format!("expected 1 to {KEY_CHARS_MAX} characters without control characters");
        errors.push(FieldError::at("/key", message));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A tool's question is refused like a hold at the other doors.
    #[test]
    fn every_door_refuses_the_same_drafts_with_the_same_words() {
        for draft in holdpoint_holds::fixtures::drafts() {
            let text = json!(draft.fields).to_string();
            let question = serde_json::from_value(Value::Object(draft.fields)).unwrap();
            let errors = question_errors(&question);
            let messages: Vec<_> = errors.iter().map(|error| &*error.message).collect();
            assert_eq!(messages, draft.messages, "{text:.300}");
        }
    }
}
