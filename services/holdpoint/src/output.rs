//! The only place that writes to the terminal: results to stdout, messages to stderr.
//!
//! A reader that goes away (`| head`) ends the process quietly; nothing here panics.

use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};

use holdpoint_contracts::{FieldError, Problem};

/// A line of the result. What a terminal would obey instead of showing it is written as JSON writes it, so
/// that a body stays the same JSON; colours of tables stay where colour is wanted.
///
/// # Errors
/// When stdout is closed.
pub(crate) fn line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", harmless(text, stdout_is_coloured()))?;
    out.flush()
}

/// Bytes of the result as they are.
///
/// # Errors
/// When stdout is closed.
pub(crate) fn raw(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// A message to the person at the terminal. If stderr is closed there is nobody to tell.
pub(crate) fn note(text: &str) {
    drop(writeln!(io::stderr().lock(), "{}", harmless(text, false)));
}

/// A line on stderr that replaces the one before; nothing when nobody watches.
pub(crate) fn live(text: &str) {
    let mut err = io::stderr().lock();
    if err.is_terminal() {
        drop(write!(err, "\r\x1b[2K{}", harmless(text, false)));
        drop(err.flush());
    }
}

/// Ends a live line, so that the next message has a line of its own.
pub(crate) fn live_end() {
    live("");
}

/// Whether a terminal obeys a character instead of showing it: controls (also those above U+007F), and marks
/// that turn the direction of a text, so that it reads as another.
pub(crate) fn is_unseen(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// The text with what is unseen written as `\u202e`. Lines and tabs stay.
fn harmless(text: &str, coloured: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if coloured && let Some(colour) = colour_at(rest) {
            shown.push_str(colour);
            rest = rest.get(colour.len()..).unwrap_or_default();
            continue;
        }
        if is_unseen(c) && !matches!(c, '\n' | '\t') {
            shown.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            shown.push(c);
        }
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    shown
}

/// The code of a table at the beginning of a text: bold, one of its colours, or back to plain.
fn colour_at(text: &str) -> Option<&str> {
    const CODES: [&str; 8] = [
        "0", "1", "39", "38;5;8", "38;5;9", "38;5;10", "38;5;11", "38;5;14",
    ];

    let (code, _) = text.strip_prefix("\x1b[")?.split_once('m')?;
    CODES.contains(&code).then(|| text.get(..code.len() + 3))?
}

/// Whether stdout takes colour.
pub(crate) fn stdout_is_coloured() -> bool {
    wants_colour(
        std::env::var_os("NO_COLOR").as_deref(),
        std::env::var_os("CLICOLOR_FORCE").as_deref(),
        io::stdout().is_terminal(),
    )
}

/// `NO_COLOR` wins over `CLICOLOR_FORCE`, which wins over what the terminal is.
fn wants_colour(no_color: Option<&OsStr>, force: Option<&OsStr>, is_terminal: bool) -> bool {
    let no_color = no_color.is_some_and(|value| !value.is_empty());
    let force = force.is_some_and(|value| !value.is_empty() && value != "0");
    !no_color && (force || is_terminal)
}

/// A problem as people read it: what is wrong, its code, and each thing that is wrong.
pub(crate) fn problem_text(problem: &Problem) -> String {
    let mut text = format!("{} ({})", problem.detail, problem.code);
    for error in &problem.errors {
        text.push_str(&field_text(error));
    }
    text
}

fn field_text(error: &FieldError) -> String {
    let places = [
        error.line.map(|line| format!("line {line}")),
        error.step.clone(),
        error.pointer.clone().filter(|pointer| !pointer.is_empty()),
    ];
    let place = places.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let colon = if place.is_empty() { "" } else { ": " };
    let mut text = format!("\n  {place}{colon}{}", error.message);
    if !error.text.is_empty() {
        text.push_str(&format!("\n    > {}", error.text.trim_end()));
    }
    if !error.nearest.is_empty() {
        text.push_str(&format!(
            "\n    did you mean: {}",
            error.nearest.join(" | ")
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_for_terminals_unless_somebody_says_otherwise() {
        let word = |text: &'static str| Some(OsStr::new(text));
        assert!(wants_colour(None, None, true));
        assert!(!wants_colour(None, None, false));
        assert!(!wants_colour(word("1"), word("1"), true));
        assert!(wants_colour(word(""), word("1"), false));
        assert!(!wants_colour(None, word("0"), false));
    }

    /// Mend A-L1: no text from outside turns a line around or writes over it, in a table or as JSON.
    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        let evil = "a\u{202e}b\u{9b}2J\u{1b}[8mc\u{2066}\u{7f}\u{200f}\u{61c}\td\ne";
        let plain = "a\\u202eb\\u009b2J\\u001b[8mc\\u2066\\u007f\\u200f\\u061c\td\ne";
        assert_eq!(harmless(evil, false), plain);
        assert_eq!(
            harmless(evil, true),
            plain,
            "concealing is no colour of a table"
        );
        assert_eq!(
            harmless("\u{1b}[38;5;10mok\u{1b}[0m ü", true),
            "\u{1b}[38;5;10mok\u{1b}[0m ü"
        );

        let value = serde_json::json!({ "question": "pay \u{202e}001\u{9b}?" });
        let shown = harmless(&value.to_string(), false);
        assert!(!shown.chars().any(is_unseen), "{shown}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            value
        );
    }

    #[test]
    fn a_problem_says_where_what_and_what_was_perhaps_meant() {
        let problem =
            Problem::new(422, "invalid_agent", "1 line is not understood").with_errors(vec![
                FieldError {
                    line: Some(2),
                    text: "Wiat 5 days".to_owned(),
                    message: "no step begins like this".to_owned(),
                    nearest: vec!["Wait 5 days".to_owned()],
                    ..FieldError::default()
                },
                FieldError {
                    step: Some("step-02".to_owned()),
                    message: "needs a tool".to_owned(),
                    ..FieldError::default()
                },
            ]);
        let expected = "1 line is not understood (invalid_agent)\n  \
            line 2: no step begins like this\n    > Wiat 5 days\n    did you mean: Wait 5 days\n  \
            step-02: needs a tool";
        assert_eq!(problem_text(&problem), expected);
    }
}
