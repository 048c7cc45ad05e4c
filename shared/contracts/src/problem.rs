//! Errors on the bus and over HTTP (RFC 9457).

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Code of an item of an atomic batch that was not done because another item was refused.
pub const BATCH_ABORTED: &str = "batch_aborted";

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{detail} ({code})")]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// Stable, snake case; programs match on it.
    pub code: String,
    /// For people: the error and what is allowed.
    pub detail: String,
    /// One entry for each error, if there can be several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// Further data for programs; its members depend on `code`.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Box<Value>,
}

/// One of several errors in a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldError {
    /// Line of the text, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Character of that line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// JSON pointer into the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// The offending bit as it came.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The error, for people.
    pub message: String,
    /// Suggestions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nearest: Vec<String>,
}

impl FieldError {
    /// An error at a JSON pointer.
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

    /// 404: it does not exist, or the caller may not know that it exists.
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
