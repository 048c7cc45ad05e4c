//! Instructions in plain words: each line becomes one step of an agent, or several if it repeats its step (S2-R1).
//!
//! Owns the grammar, the steps that it gives, and the words that it gives back. It must never guess: a word that the
//! grammar does not know is an error with its place. It never reads a clock, a file or an agent, so the same text always
//! gives the same steps. Whether a tool, a user, a step or a time zone exists is checked when the agent is applied.
//!
//! | to change | see |
//! |---|---|
//! | how a line is cut into words | `tokens` |
//! | the order of the parts of a line | `sentence` |
//! | the words of one kind of step | `waits`, `mails`, `people`, `calls`, `contacts`, `finishes` |
//! | what follows a kind of step, such as a timeout | `modifiers` |
//! | conditions | `conditions` |
//! | the words that repeat a step, and the steps of such a line | `repetition`, `repeated_steps` |
//! | what the name of a repeated step means in later lines | `latest_results` |
//! | the words for a step | `write_words` |

mod calls;
mod conditions;
mod contacts;
mod dates;
mod diagnostics;
mod draft;
mod durations;
mod earlier_lines;
mod finishes;
mod latest_results;
mod limits;
mod line_errors;
mod line_parser;
mod lines;
mod mails;
mod modifiers;
mod options;
mod people;
mod quotes;
mod recipients;
mod repeated_steps;
mod repetition;
mod samples;
mod sentence;
mod tokens;
mod values;
mod waits;
mod write_words;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

pub use diagnostics::InstructionError;
pub use limits::{INSTRUCTIONS_BYTES_MAX, STEPS_MAX};

use earlier_lines::EarlierLines;
use lines::Line;

/// Most errors that are reported at once. Further lines are not read.
const ERRORS_MAX: usize = 100;

/// A step with the line that it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct InstructionStep {
    /// From 1.
    pub line: usize,
    /// The line as written, without white space around it and without its bullet. A line that repeats its step has further
    /// steps, and their text is a comment such as `# Time 2 of 5`.
    pub text: String,
    /// One entry of `steps` of an agent. It has an `id` only if the line names the step.
    pub fields: Map<String, Value>,
}

/// Compiles instructions to the steps that an engineer would write (S2-R1): waits (S0-AC1), conditions (S0-AC5), handoffs
/// (S0-AC6) and calls. Each line is one step, or several if it repeats its step. Blank lines and lines that begin with `#` are skipped.
///
/// # Errors
/// All lines that are not understood, at most 100. A text that is empty, too long or has too many steps has one error.
pub fn compile(text: &str) -> Result<Vec<InstructionStep>, Vec<InstructionError>> {
    if text.len() > INSTRUCTIONS_BYTES_MAX {
        let message = format!(
            "The instructions have {} bytes; at most {INSTRUCTIONS_BYTES_MAX} are allowed.",
            text.len()
        );
        return Err(vec![lines::error_of_text(message)]);
    }
    let mut steps = Vec::new();
    let mut errors = Vec::new();
    let mut earlier = EarlierLines::default();
    let mut indent = None;
    for line in lines::read_lines(text) {
        if earlier.position >= STEPS_MAX {
            let message = format!("Instructions have at most {STEPS_MAX} steps.");
            errors.push(line.error(line.start, message, Vec::new()));
            break;
        }
        let first = *indent.get_or_insert(line.indent());
        match compile_line(&line, first, &mut earlier) {
            Ok(of_line) => steps.extend(of_line),
            Err(error) => errors.push(error),
        }
        if errors.len() == ERRORS_MAX {
            break;
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    if steps.is_empty() {
        let message = "The instructions have no steps; write for example `Wait 5 days`.";
        return Err(vec![lines::error_of_text(message.to_owned())]);
    }
    Ok(steps)
}

/// The words of a step: one line that [`compile`] reads as exactly these fields. `None`: the grammar has no words for it.
#[must_use]
pub fn write_step(fields: &Map<String, Value>) -> Option<String> {
    let words = write_words::write(fields)?;
    // A step is shown only by words that mean exactly the same.
    let steps = compile(&words).ok()?;
    let [step] = steps.as_slice() else {
        return None;
    };
    (step.fields == *fields).then_some(words)
}

fn compile_line(
    line: &Line<'_>,
    indent: usize,
    earlier: &mut EarlierLines,
) -> Result<Vec<InstructionStep>, InstructionError> {
    line.check_characters()?;
    if line.indent() > indent {
        let message = "This line is indented deeper than the first line. Instructions have no blocks; repeat `If …` in each line.";
        return Err(line.error(line.start, message.to_owned(), Vec::new()));
    }
    let read = sentence::read(line, earlier)?;
    let steps = read.into_iter().map(|(fields, shown)| InstructionStep {
        line: line.number,
        text: shown.unwrap_or_else(|| line.text().to_owned()),
        fields,
    });
    Ok(steps.collect())
}
