//! What earlier lines mean for the next one: its position, its questions, and the names of repeated steps.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::draft::default_id;
use crate::line_parser::Question;
use crate::tokens::{Token, TokenKind};
use crate::values::named_step;
use crate::{INSTRUCTIONS_BYTES_MAX, STEPS_MAX};

/// What earlier lines mean for the next one.
#[derive(Debug, Default)]
pub(crate) struct EarlierLines {
    /// Number of steps so far. It is the position of the last step.
    pub(crate) position: usize,
    pub(crate) questions: Vec<Question>,
    /// Condition of the line before, if `Otherwise` may follow.
    pub(crate) condition: Option<String>,
    /// Names of repeated steps. Such a name does not say which time is meant.
    repeated: BTreeSet<String>,
    /// Bytes of the repeated lines, once for each time.
    repeated_bytes: usize,
}

impl EarlierLines {
    /// After a line that is not understood. The next line may refer to it, and must not be an error for that.
    pub(crate) fn add_unknown(&mut self) {
        self.position += 1;
        self.condition = Some("true".to_owned());
        self.questions.push(Question {
            step: default_id(self.position),
            options: Vec::new(),
            is_conditional: false,
        });
    }

    /// After a line with one step.
    pub(crate) fn add_step(&mut self, fields: &Map<String, Value>, condition: Option<String>) {
        self.position += 1;
        self.condition = condition;
        let Some(ask) = fields.get("ask") else {
            return;
        };
        let id = fields.get("id").and_then(Value::as_str);
        let options = ask.get("options").and_then(Value::as_array);
        let options = options.into_iter().flatten().filter_map(Value::as_str);
        self.questions.push(Question {
            step: id.map_or_else(|| default_id(self.position), str::to_owned),
            options: options.map(str::to_owned).collect(),
            is_conditional: fields.contains_key("when"),
        });
    }

    /// After a line that repeats its step. `bytes` counts the line once for each time.
    pub(crate) fn add_repeated(&mut self, steps: usize, bytes: usize, name: Option<&str>) {
        self.position += steps;
        self.condition = None;
        self.repeated_bytes += bytes;
        self.repeated.extend(name.map(str::to_owned));
    }

    /// Why the steps of a repeated line are too many or too large, if they are. They are not made then.
    pub(crate) fn refuse_repeated(&self, steps: usize, bytes: usize) -> Option<String> {
        if self.position + steps > STEPS_MAX {
            let before = self.position;
            return Some(format!(
                "Instructions have at most {STEPS_MAX} steps; this line has {steps}, and the lines before it have {before}"
            ));
        }
        let total = self.repeated_bytes + bytes;
        (total > INSTRUCTIONS_BYTES_MAX).then(|| {
            format!(
                "Repeated lines have at most {INSTRUCTIONS_BYTES_MAX} bytes, counted once for each time; this one makes it {total}"
            )
        })
    }

    /// The first token that names a repeated step, with that name.
    pub(crate) fn find_repeated(&self, tokens: &[Token<'_>]) -> Option<(usize, &str)> {
        if self.repeated.is_empty() {
            return None;
        }
        let mut tokens = tokens.iter().enumerate();
        tokens.find_map(|(at, token)| {
            let text = placeholders(&token.kind)?;
            named_step(text, &self.repeated).map(|name| (at, name))
        })
    }
}

/// A text that may hold placeholders. `$5.00 for $find` is plain.
fn placeholders<'t>(kind: &'t TokenKind<'_>) -> Option<&'t str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._-[]".contains(c);
    match kind {
        TokenKind::Path(text) | TokenKind::Expression(text) => Some(text),
        TokenKind::Text(text) => {
            let is_path = text
                .strip_prefix('$')
                .is_some_and(|path| path.chars().all(is_part));
            (is_path || text.contains("{{")).then_some(text)
        }
        TokenKind::Word(_) | TokenKind::Punctuation(_) | TokenKind::Unclosed(_) => None,
    }
}
