//! `wait_for` and `finish` as their author writes them.

use serde_json::{Map, Value};

use super::diagnostics::is_name;
use super::step::StepReader;
use crate::domain::model::plan::Action;
use crate::domain::model::plan::signal_steps::{Finish, FinishStatus, OnWaitTimeout, WaitFor};

/// How long a step waits for a signal if its author does not say it: 7 days, in milliseconds.
const TIMEOUT_DEFAULT_MS: u64 = 7 * 86_400_000;

/// Longest summary of a `finish`, in characters.
pub(in crate::domain) const SUMMARY_CHARS_MAX: usize = 2_000;

const WAIT_FOR: [&str; 3] = ["signal", "timeout", "on_timeout"];
const FINISH: [&str; 3] = ["summary", "status", "output"];

impl StepReader<'_, '_> {
    /// Reads a `wait_for`: the name of a signal, or an object.
    pub(super) fn wait_for(&mut self, value: &Value) -> Option<Action> {
        let short = Map::from_iter([("signal".to_owned(), value.clone())]);
        let fields = match value {
            Value::String(_) => &short,
            _ => self.object("wait_for", value, &WAIT_FOR)?,
        };
        let signal = match fields.get("signal") {
            Some(Value::String(name)) if is_name(name) => Some(name.clone()),
            other => {
                let message = "`wait_for` needs `signal: NAME` with 1 to 100 letters, digits, dots, underscores or hyphens; the first is a letter or digit.";
                self.refuse("wait_for", other.unwrap_or(&Value::Null), message)
            }
        };
        let timeout_ms = match fields.get("timeout") {
            None | Some(Value::Null) => Some(TIMEOUT_DEFAULT_MS),
            Some(timeout) => self.duration_within_ms("wait_for", "timeout", timeout),
        };
        let allowed = [("fail", OnWaitTimeout::Fail), ("skip", OnWaitTimeout::Skip)];
        let on_timeout = self.word("wait_for", "on_timeout", fields.get("on_timeout"), &allowed)?;
        Some(Action::WaitFor(WaitFor {
            signal: signal?,
            timeout_ms: timeout_ms?,
            on_timeout: on_timeout.unwrap_or_default(),
        }))
    }

    /// Reads a `finish`: the summary, or an object.
    pub(super) fn finish(&mut self, value: &Value) -> Option<Action> {
        let short = Map::from_iter([("summary".to_owned(), value.clone())]);
        let fields = match value {
            Value::String(_) => &short,
            _ => self.object("finish", value, &FINISH)?,
        };
        let summary = match fields.get("summary") {
            Some(Value::String(text)) if is_summary(text) => Some(text.clone()),
            other => {
                let message = format!(
                    "`finish` needs a `summary`, a text of 1 to {SUMMARY_CHARS_MAX} characters."
                );
                self.refuse("finish", other.unwrap_or(&Value::Null), message)
            }
        };
        let allowed = [
            ("completed", FinishStatus::Completed),
            ("failed", FinishStatus::Failed),
        ];
        let status = self.word("finish", "status", fields.get("status"), &allowed)?;
        Some(Action::Finish(Finish {
            summary: summary?,
            status: status.unwrap_or_default(),
            output: fields.get("output").cloned(),
        }))
    }
}

fn is_summary(text: &str) -> bool {
    !text.trim().is_empty() && text.chars().count() <= SUMMARY_CHARS_MAX
}
