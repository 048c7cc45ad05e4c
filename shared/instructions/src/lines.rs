//! The lines of a text, without bullets, blank lines and comments, and the place of an error in a line.

use crate::diagnostics::InstructionError;

/// Most characters of the text of an error.
const SHOWN_CHARS_MAX: usize = 80;

/// A line that is not blank and not a comment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'l> {
    /// From 1.
    pub(crate) number: usize,
    /// The line as written, without its end.
    whole: &'l str,
    /// Byte of `whole` at which the words begin.
    pub(crate) start: usize,
}

/// The lines with words, in their order.
pub(crate) fn read_lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.lines().enumerate().filter_map(|(at, whole)| {
        let trimmed = whole.trim_start();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            return None;
        }
        let words = without_bullet(trimmed).trim_start();
        Some(Line {
            number: at + 1,
            whole,
            start: whole.len() - words.len(),
        })
    })
}

/// An error of the whole text, shown at its first character.
pub(crate) fn error_of_text(message: String) -> InstructionError {
    InstructionError {
        line: 1,
        column: 1,
        text: String::new(),
        message,
        nearest: Vec::new(),
    }
}

impl<'l> Line<'l> {
    /// The words, without white space around them.
    pub(crate) fn text(&self) -> &'l str {
        self.from(self.start).trim_end()
    }

    /// Bytes of white space before the line.
    pub(crate) fn indent(&self) -> usize {
        self.whole.len() - self.whole.trim_start().len()
    }

    /// An error at a byte of the line as written.
    pub(crate) fn error(
        &self,
        at: usize,
        message: String,
        nearest: Vec<String>,
    ) -> InstructionError {
        let before = self.whole.get(..at).unwrap_or(self.whole);
        InstructionError {
            line: self.number,
            column: before.chars().count() + 1,
            text: self
                .from(at)
                .trim_end()
                .chars()
                .take(SHOWN_CHARS_MAX)
                .collect(),
            message,
            nearest,
        }
    }

    /// Refuses characters that a reader does not see, because a line must mean what it shows.
    pub(crate) fn check_characters(&self) -> Result<(), InstructionError> {
        let Some((at, hidden)) = self.whole.char_indices().find(|(_, c)| is_hidden(*c)) else {
            return Ok(());
        };
        let code = u32::from(hidden);
        let message = format!(
            "The line has the control character U+{code:04X}; remove it, or write `\\n` for a line break in a quoted text."
        );
        Err(self.error(at, message, Vec::new()))
    }

    fn from(&self, at: usize) -> &'l str {
        self.whole.get(at..).unwrap_or_default()
    }
}

/// Control characters, and marks that change the order in which a text is shown.
pub(crate) fn is_hidden(c: char) -> bool {
    let reorders =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (c.is_control() && c != '\t') || reorders
}

/// A bullet is `-`, `*`, `•`, `1.` or `2)`, with white space after it.
fn without_bullet(line: &str) -> &str {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let after = match line.get(digits..) {
        Some(rest) if digits > 0 => rest.strip_prefix(['.', ')']),
        Some(_) | None => line.strip_prefix(['-', '*', '•']),
    };
    let is_bullet = |after: &&str| after.is_empty() || after.starts_with(char::is_whitespace);
    after.filter(is_bullet).unwrap_or(line)
}
