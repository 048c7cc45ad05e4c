//! One way to say no, on the bus and over HTTP (RFC 9457).

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Code of what is notified of one of several that are done all or none: it was not done, because another
/// one was refused.
pub const BATCH_ABORTED: &str = "batch_aborted";

/// Why something was not done: what, where, and how to mend it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{detail} ({code})")]
pub struct Problem {
    /// The HTTP status that says it best.
    pub status: u16,
    /// Stable, snake case; programs match on it.
    pub code: String,
    /// For people: what is wrong and how to mend it.
    pub detail: String,
    /// One entry for each thing that is wrong, where there can be several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// What programs may want to know besides; which members there are depends on `code`.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Box<Value>,
}

/// One of several things that are wrong with what was sent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldError {
    /// Line of the text, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Step that it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// JSON pointer into the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// The offending bit as it came.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// What is wrong with it.
    pub message: String,
    /// What was perhaps meant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nearest: Vec<String>,
}

impl FieldError {
    /// What is wrong with the member at a JSON pointer.
    pub fn at(pointer: &str, message: impl Into<String>) -> Self {
        Self {
            pointer: Some(pointer.to_owned()),
            message: message.into(),
            ..Self::default()
        }
    }

    /// The same error in a larger body, of which what was looked at is the member at `pointer`.
    #[must_use]
    pub fn under(self, pointer: &str) -> Self {
        let inner = self.pointer.as_deref().unwrap_or_default();
        Self {
            pointer: Some(format!("{pointer}{inner}")),
            ..self
        }
    }
}

impl Problem {
    /// A problem without single errors.
    pub fn new(status: u16, code: &str, detail: impl Into<String>) -> Self {
        Self {
            status,
            code: code.to_owned(),
            detail: detail.into(),
            errors: Vec::new(),
            data: Box::default(),
        }
    }

    /// 404: there is no such thing (or it is another user's).
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(404, "not_found", detail)
    }

    /// 422: the body is understood and wrong.
    pub fn invalid_body(detail: impl Into<String>) -> Self {
        Self::new(422, "invalid_body", detail)
    }

    /// 503: try again; nothing is lost.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(503, "unavailable", detail)
    }

    /// 500: a fault of ours; the log has the rest.
    #[must_use]
    pub fn internal() -> Self {
        Self::new(
            500,
            "internal",
            "something went wrong here; the log of the service says what",
        )
    }

    /// Whether trying the same again can help.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.status == 503
    }

    /// The same with what programs may want to know besides.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        *self.data = data;
        self
    }

    /// The same with single errors.
    #[must_use]
    pub fn with_errors(mut self, errors: Vec<FieldError>) -> Self {
        self.errors = errors;
        self
    }
}
