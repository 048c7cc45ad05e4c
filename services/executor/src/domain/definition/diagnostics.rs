//! What is wrong with an agent, with its place in the text.

use holdpoint_contracts::problem::FieldError;
use serde_json::Value;

use super::lines::Lines;
use super::mails::Mails;
use crate::domain::expression::diagnostic;
use crate::domain::model::library::Library;
use crate::domain::text::cut;

/// Longest agent text, in bytes.
pub const MAX_TEXT: usize = 1_048_576;

/// Most steps of an agent.
pub const MAX_STEPS: usize = holdpoint_instructions::STEPS_MAX;

/// Longest name of an agent, a tool or a step, in characters.
pub const MAX_NAME: usize = 100;

/// Most errors that are answered; one more says that there are others.
const MAX_ERRORS: usize = 100;

/// The time zone of waits without another one.
const UTC: &str = "UTC";

#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'a> {
    /// A field of the agent itself, or the agent as a whole.
    Agent(Option<&'a str>),
    /// A step by position and id, and its field if it is about one.
    Step(usize, &'a str, Option<&'a str>),
}

/// One pass over an agent that collects errors.
pub(super) struct AgentChecker<'t> {
    pub(super) lines: Lines<'t>,
    pub(super) errors: Vec<FieldError>,
    /// There are more errors than are answered.
    pub(super) has_more: bool,
    /// Placeholders of the steps so far.
    pub(super) placeholders: usize,
    /// Steps of the agent before those that its planner made.
    pub(super) planner_steps: usize,
    /// The time zone of waits that name none.
    pub(super) time_zone: String,
    pub(super) mails: Mails,
    /// The templates and calendars of the workspace.
    pub(super) library: Option<&'t Library>,
}

impl<'t> AgentChecker<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            lines: Lines::of(text),
            errors: Vec::new(),
            has_more: false,
            placeholders: 0,
            planner_steps: 0,
            time_zone: UTC.to_owned(),
            mails: Mails::default(),
            library: None,
        }
    }
}

impl AgentChecker<'_> {
    /// All errors, and a last one if the checker ended early.
    pub(super) fn answer(mut self) -> Vec<FieldError> {
        if self.has_more {
            let message =
                format!("The agent has more errors. Only the first {MAX_ERRORS} are listed.");
            self.errors.push(diagnostic("", message));
        }
        self.errors
    }

    /// Whether further errors are not answered. Looking for them would cost time: each is compared with
    /// all known names, and its line is searched.
    pub(super) fn is_full(&mut self) -> bool {
        self.has_more |= self.errors.len() >= MAX_ERRORS;
        self.has_more
    }

    pub(super) fn report_field(&mut self, field: &str, text: &str, message: impl Into<String>) {
        self.report(Place::Agent(Some(field)), diagnostic(text, message));
    }

    pub(super) fn report_step(&mut self, (at, id): (usize, &str), field: &str, error: FieldError) {
        self.report(Place::Step(at, id, Some(field)), error);
    }

    pub(super) fn report(&mut self, place: Place<'_>, diagnostic: FieldError) {
        if self.is_full() {
            return;
        }
        let (line, step) = match place {
            Place::Agent(field) => (field.and_then(|field| self.lines.field(field)), None),
            Place::Step(at, id, field) => (self.lines.step(at, field), Some(id.to_owned())),
        };
        // A line of instructions that repeats its step has the same error in each of its steps.
        let is_known = |known: &FieldError| {
            (known.line, &known.message) == (line, &diagnostic.message)
                && known.text == diagnostic.text
                && known.step != step
        };
        if line.is_some() && self.errors.iter().any(is_known) {
            return;
        }
        self.errors.push(FieldError {
            line,
            step,
            ..diagnostic
        });
    }
}

/// Whether a text is a name of an agent, a tool or a step:
/// `[A-Za-z0-9][A-Za-z0-9._-]{0,99}`.
pub(crate) fn is_name(text: &str) -> bool {
    text.len() <= MAX_NAME
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// A value as it is quoted in an error: texts without quotes, the rest as JSON, both cut.
pub(super) fn shown(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    cut(&text, 80)
}
