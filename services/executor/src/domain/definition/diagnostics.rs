//! What is wrong with an agent, with its place in the text.

use serde::Serialize;
use serde_json::Value;

use super::lines::Lines;
use crate::domain::expression::Diagnostic;

/// Longest agent text, in bytes.
pub const MAX_TEXT: usize = 1_048_576;

/// Most steps of an agent.
pub const MAX_STEPS: usize = 1_000;

/// Longest name of an agent, a tool or a step, in characters.
pub const MAX_NAME: usize = 100;

/// Most faults that are answered; one more says that there are others.
const MAX_FAULTS: usize = 100;

/// One thing that is wrong with an agent: an entry of `errors` in the 422.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentDiagnostic {
    /// Line in the text, from 1, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Id of the step it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The offending bit as it was written.
    pub text: String,
    /// What is wrong and what to write instead.
    pub message: String,
    /// Known names that look like the one that was written, best first.
    pub nearest: Vec<String>,
}

/// Where a fault is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'a> {
    /// A field of the agent itself, or the agent as a whole.
    Agent(Option<&'a str>),
    /// A step by position and id, and its field if it is about one.
    Step(usize, &'a str, Option<&'a str>),
}

/// One pass over an agent that collects faults.
pub(super) struct AgentChecker<'t> {
    pub(super) lines: Lines<'t>,
    pub(super) faults: Vec<AgentDiagnostic>,
    /// There are more faults than are answered.
    pub(super) has_more: bool,
    /// Placeholders of the steps so far.
    pub(super) placeholders: usize,
}

impl AgentChecker<'_> {
    /// All faults, and a last one if the review ended early.
    pub(super) fn answer(mut self) -> Vec<AgentDiagnostic> {
        if self.has_more {
            self.faults.push(AgentDiagnostic {
                line: None,
                step: None,
                text: String::new(),
                message: format!(
                    "The agent has more errors. Only the first {MAX_FAULTS} are listed."
                ),
                nearest: Vec::new(),
            });
        }
        self.faults
    }

    /// Whether further faults are not answered. Looking for them would cost time: each is compared with
    /// all known names, and its line is searched.
    pub(super) fn is_full(&mut self) -> bool {
        self.has_more |= self.faults.len() >= MAX_FAULTS;
        self.has_more
    }

    pub(super) fn fault(&mut self, place: Place<'_>, complaint: Diagnostic) {
        if self.is_full() {
            return;
        }
        let (line, step) = match place {
            Place::Agent(field) => (field.and_then(|field| self.lines.field(field)), None),
            Place::Step(at, id, field) => (self.lines.step(at, field), Some(id.to_owned())),
        };
        let Diagnostic {
            text,
            message,
            nearest,
        } = complaint;
        self.faults.push(AgentDiagnostic {
            line,
            step,
            text,
            message,
            nearest,
        });
    }
}

/// Whether a text is a name of an agent, a tool or a step:
/// `[A-Za-z0-9][A-Za-z0-9._-]{0,99}`.
pub(super) fn is_name(text: &str) -> bool {
    text.len() <= MAX_NAME
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

pub(super) fn plain(text: &str, message: &str) -> Diagnostic {
    Diagnostic {
        text: text.to_owned(),
        message: message.to_owned(),
        nearest: Vec::new(),
    }
}

/// A value as it is quoted in a fault: texts without quotes, the rest as JSON, both cut.
pub(super) fn shown(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    cut(&text, 80)
}

/// A text of at most so many characters, with `…` for the rest.
pub(super) fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}
