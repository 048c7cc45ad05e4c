//! What earlier lines mean for the next one: its position, its questions, and the names of repeated steps.

use serde_json::{Map, Value};

use crate::conditions::{is_constant, negate};
use crate::draft::{ReadStep, default_id};
use crate::latest_results::LatestResults;
use crate::limits::{INSTRUCTIONS_BYTES_MAX, STEPS_MAX};
use crate::line_parser::Question;
use crate::tokens::{Token, TokenKind};

/// What earlier lines mean for the next one.
#[derive(Debug, Default)]
pub(crate) struct EarlierLines {
    /// Number of steps so far. It is the position of the last step.
    pub(crate) position: usize,
    pub(crate) questions: Vec<Question>,
    /// Condition of the next line in CEL, if it begins with `Otherwise`.
    pub(crate) otherwise: Option<String>,
    /// Names of repeated steps, which mean their last results.
    latest: LatestResults,
    /// Bytes of the repeated lines, once for each time, and of the last results that are written out.
    repeated_bytes: usize,
}

impl EarlierLines {
    /// After a line that is not understood. The next line may refer to it, and must not be an error for that.
    pub(crate) fn add_unknown(&mut self) {
        self.position += 1;
        self.otherwise = Some("true".to_owned());
        self.questions.push(Question {
            step: default_id(self.position),
            options: Vec::new(),
            is_conditional: false,
        });
    }

    /// After a line with one step, or with a wait before it.
    pub(crate) fn add_step(&mut self, fields: &Map<String, Value>, otherwise: Option<String>) {
        self.position += 1;
        let id = fields.get("id").and_then(Value::as_str);
        let id = id.map_or_else(|| default_id(self.position), str::to_owned);
        self.otherwise = otherwise;
        let Some(ask) = fields.get("ask") else {
            return;
        };
        let options = ask.get("options").and_then(Value::as_array);
        let options = options.into_iter().flatten().filter_map(Value::as_str);
        self.questions.push(Question {
            step: id,
            options: options.map(str::to_owned).collect(),
            is_conditional: fields.contains_key("when"),
        });
    }

    /// After a line that repeats its step.
    pub(crate) fn add_repeated(&mut self, steps: usize, ids: &[String]) {
        self.position += steps;
        self.otherwise = None;
        self.latest.add(ids);
    }

    /// Counts bytes that no line has.
    pub(crate) const fn count_bytes(&mut self, bytes: usize) {
        self.repeated_bytes += bytes;
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

    /// Writes out the last results that some steps of a line name, and gives their bytes.
    ///
    /// # Errors
    /// Why one cannot be written out.
    pub(crate) fn write_latest(&self, steps: &mut [ReadStep]) -> Result<usize, String> {
        let room_before = INSTRUCTIONS_BYTES_MAX.saturating_sub(self.repeated_bytes);
        let mut room = room_before;
        let mut fields = steps.iter_mut().map(|(fields, _)| fields);
        fields.try_for_each(|fields| self.latest.write_out(fields, &mut room))?;
        Ok(room_before - room)
    }

    /// The first token that names a repeated step.
    pub(crate) fn find_repeated(&self, tokens: &[Token<'_>]) -> Option<usize> {
        tokens.iter().position(|token| match &token.kind {
            TokenKind::Path(text) | TokenKind::Expression(text) => {
                self.latest.find_name(text).is_some()
            }
            TokenKind::Text(text) => self.latest.find_name(text).is_some(),
            TokenKind::Word(_) | TokenKind::Punctuation(_) | TokenKind::Unclosed(_) => false,
        })
    }
}

/// The condition of `Otherwise` after a step with this condition. The contact can change while that step runs or waits, so
/// the step must also have no result.
pub(crate) fn otherwise_of(id: &str, when: &str) -> String {
    let opposite = negate(when);
    if is_constant(when) {
        return opposite;
    }
    format!("${id} == null && {opposite}")
}
