//! What a step says about failures: `retry` and `timeout` of its tool, and `on_error`.
//!
//! Owns these fields, their limits and defaults. It must never know what a tool is: whether it is idempotent
//! is decided when the step is dispatched.

use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::tool::{
    ATTEMPTS_MAX, MAX_BACKOFF_DEFAULT_MS, RETRY_CODE_BYTES_MAX, RETRY_CODES_MAX,
};
use holdpoint_ids::nearest;
use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::diagnostics::shown;
use super::fields;
use super::step::StepReader;
use crate::domain::expression::diagnostic;
use crate::domain::model::plan::{OnError, Retry};

/// Kinds of steps, besides a tool, that people can do after they failed.
const HANDED_OFF: [&str; 3] = ["ask", "wait_for", "run"];

const RETRY: [&str; 4] = ["attempts", "backoff", "max_backoff", "on"];

impl StepReader<'_, '_> {
    /// Reads `retry`; none: it is not written, or it was refused.
    pub(super) fn retry(&mut self, step: &Map<String, Value>) -> Option<Retry> {
        let value = step.get("retry")?;
        self.require_tool(step, "retry")?;
        let retry = match value {
            Value::String(word) if word == "none" => return Some(Retry::NONE),
            Value::Object(retry) => retry,
            other => {
                let message = "`retry` is `none`, or an object such as `{ attempts: 3, backoff: 2s }` \
                               with `attempts`, `backoff`, `max_backoff` and `on`.";
                return self.refuse("retry", other, message);
            }
        };
        for name in retry.keys() {
            if let Some(error) = fields::inner_field(name, "retry", &RETRY) {
                self.report("retry", error);
            }
        }
        let attempts = match retry.get("attempts") {
            None => Retry::IDEMPOTENT.attempts,
            Some(value) => self.attempts(value)?,
        };
        let backoff_ms = match retry.get("backoff") {
            None => Retry::IDEMPOTENT.backoff_ms,
            Some(value) => self.duration_within_ms("retry", "backoff", value)?,
        };
        let max_backoff_ms = match retry.get("max_backoff") {
            None => backoff_ms.max(MAX_BACKOFF_DEFAULT_MS),
            Some(value) => {
                let most = self.duration_within_ms("retry", "max_backoff", value)?;
                if most < backoff_ms {
                    let message = "`max_backoff` is at least as long as `backoff`.";
                    return self.refuse("retry", value, message);
                }
                most
            }
        };
        let on = self.codes(retry.get("on"))?;
        Some(Retry {
            attempts,
            backoff_ms,
            max_backoff_ms,
            on,
        })
    }

    /// Reads `timeout`, the longest time of one attempt.
    pub(super) fn timeout(&mut self, step: &Map<String, Value>) -> Option<u64> {
        let value = step.get("timeout")?;
        self.require_tool(step, "timeout")?;
        self.duration_ms("timeout", value)
    }

    /// Reads `on_error`.
    pub(super) fn on_error(&mut self, step: &Map<String, Value>) -> OnError {
        let Some(value) = step.get("on_error") else {
            return OnError::default();
        };
        let Ok(on_error) = OnError::deserialize(value) else {
            let text = shown(value);
            let words = ["fail", "continue", "skip_rest", "handoff"];
            let error = FieldError {
                nearest: nearest(&text, words.into_iter()),
                ..diagnostic(
                    &text,
                    "`on_error` is one of `fail`, `continue`, `skip_rest`, `handoff`.",
                )
            };
            self.report("on_error", error);
            return OnError::default();
        };
        let kind = Self::other_kind(step).filter(|_| on_error == OnError::Handoff);
        if let Some(kind) = kind.filter(|kind| !HANDED_OFF.contains(kind)) {
            let message = format!(
                "`on_error: handoff` belongs to a `tool`, `ask`, `wait_for` or `run`; a `{kind}` has none."
            );
            self.report("on_error", diagnostic("handoff", message));
        }
        on_error
    }

    /// Reports a field that only a tool can have.
    fn require_tool(&mut self, step: &Map<String, Value>, field: &str) -> Option<()> {
        let Some(kind) = Self::other_kind(step) else {
            return Some(());
        };
        let has_its_own = field == "timeout" && !matches!(kind, "wait" | "finish");
        let message = if has_its_own {
            format!("`timeout` belongs inside `{kind}`.")
        } else {
            format!("`{field}` belongs to a `tool`; a `{kind}` has none.")
        };
        self.report(field, diagnostic(field, message));
        None
    }

    fn attempts(&mut self, value: &Value) -> Option<u32> {
        let attempts = value.as_u64().and_then(|number| u32::try_from(number).ok());
        match attempts.filter(|number| (1..=ATTEMPTS_MAX).contains(number)) {
            Some(attempts) => Some(attempts),
            None => {
                let message = format!(
                    "`attempts` is a whole number from 1 to {ATTEMPTS_MAX}; the first call counts."
                );
                self.refuse("retry", value, message)
            }
        }
    }

    /// One code or a list.
    fn codes(&mut self, value: Option<&Value>) -> Option<Vec<String>> {
        let codes = match value {
            None => return Some(Vec::new()),
            Some(Value::Array(codes)) => codes.as_slice(),
            Some(one) => std::slice::from_ref(one),
        };
        let is_code = |code: &&Value| {
            let text = code.as_str().unwrap_or_default();
            !text.is_empty() && text.len() <= RETRY_CODE_BYTES_MAX
        };
        if codes.is_empty()
            || codes.len() > RETRY_CODES_MAX
            || !codes.iter().all(|code| is_code(&code))
        {
            let message = format!(
                "`on` is a list of 1 to {RETRY_CODES_MAX} error codes, such as `[http_status, timeout]`; \
                 each has 1 to {RETRY_CODE_BYTES_MAX} characters."
            );
            return self.refuse("retry", value.unwrap_or(&Value::Null), message);
        }
        let codes = codes.iter().filter_map(Value::as_str);
        Some(codes.map(str::to_owned).collect())
    }
}
