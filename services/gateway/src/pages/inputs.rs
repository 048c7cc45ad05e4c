//! Text inputs of forms with their labels, and the errors that a service reports of single fields.

use holdpoint_contracts::FieldError;
use maud::{Markup, html};

use super::sanitize::one_line;

/// Longest text of a field error, in characters.
const ERROR_CHARS_MAX: usize = 400;

/// The error of one field as a sentence of the page: the API begins it with the path of the field.
pub(super) fn field_error(errors: &[FieldError], pointer: &str) -> Option<String> {
    let concerns = |error: &&FieldError| {
        let rest = error.pointer.as_deref().unwrap_or_default();
        let rest = rest.strip_prefix(pointer);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let error = errors.iter().find(concerns)?;
    let path = error.pointer.as_deref().unwrap_or_default();
    let path = path.trim_start_matches('/').replace('/', ".");
    let text = match error.message.strip_prefix(&path) {
        Some(rest) if rest.starts_with(": ") => rest.trim_start_matches(": ").to_owned(),
        Some(rest) if rest.starts_with(' ') && path.contains(['.', '_']) => format!("This{rest}"),
        Some(_) | None => error.message.clone(),
    };
    let text = one_line(&text, ERROR_CHARS_MAX);
    if error.nearest.is_empty() {
        return Some(text);
    }
    let nearest = one_line(&error.nearest.join(", "), ERROR_CHARS_MAX);
    Some(format!("{text}. Did you mean {nearest}?"))
}

pub(super) fn error_hint(id: &str, error: Option<&String>) -> Markup {
    html! {
        @if let Some(text) = error {
            p.hint id=(id) { strong.error { (text) } }
        }
    }
}

/// A text input with its label and its error.
pub(super) struct Input<'a> {
    pub(super) kind: &'static str,
    pub(super) name: &'static str,
    pub(super) value: &'a str,
    pub(super) placeholder: Option<&'static str>,
    pub(super) required: bool,
    pub(super) error: Option<String>,
}

impl<'a> Input<'a> {
    pub(super) fn text(name: &'static str, value: &'a str, error: Option<String>) -> Self {
        Self {
            kind: "text",
            name,
            value,
            placeholder: None,
            required: false,
            error,
        }
    }

    pub(super) fn render(&self, label: &Markup) -> Markup {
        let error = self.error.as_ref();
        let hint = format!("{}-wrong", self.name);
        html! {
            label for=(self.name) { (label) }
            input id=(self.name) type=(self.kind) name=(self.name) value=(self.value) required[self.required]
                autocomplete="off" spellcheck="false" placeholder=[self.placeholder] aria-describedby=(hint)
                autofocus[error.is_some()] aria-invalid=[error.map(|_| "true")];
            (error_hint(&hint, error))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_error_is_a_sentence_with_suggestions() {
        for (pointer, message, shown) in [
            (
                "/time_zone",
                "time_zone is the name of a zone",
                "This is the name of a zone",
            ),
            (
                "/channels/chat/url",
                "channels.chat.url: only https addresses are called",
                "only https addresses are called",
            ),
            (
                "/url",
                "url: 10.0.0.1 is not a public address",
                "10.0.0.1 is not a public address",
            ),
            (
                "/url",
                "url is an http or https address",
                "url is an http or https address",
            ),
            (
                "/events/1",
                "`run.over` is not an event",
                "`run.over` is not an event",
            ),
        ] {
            let errors = [FieldError::at(pointer, message)];
            assert_eq!(field_error(&errors, pointer).as_deref(), Some(shown));
        }
        let named = FieldError {
            nearest: vec!["run.failed".to_owned()],
            ..FieldError::at("/events/0", "x".repeat(2_000))
        };
        let shown = field_error(&[named], "/events").unwrap();
        assert!(shown.ends_with("Did you mean run.failed?"), "{shown}");
    }
}
