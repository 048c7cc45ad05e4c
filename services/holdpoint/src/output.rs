//! The only module that writes to the terminal: results to stdout, messages to stderr.
//!
//! A closed stdout (`| head`) ends the process quietly; nothing here panics.

use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};

use holdpoint_contracts::{FieldError, Problem};

/// Prints a line of the result. Control characters are escaped as in JSON, so that a body stays the same
/// JSON. The colours of tables are kept if colour is on.
pub(crate) fn line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", escape(text, stdout_is_coloured()))?;
    out.flush()
}

pub(crate) fn raw(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Prints a message for the user. A closed stderr is ignored.
pub(crate) fn note(text: &str) {
    drop(writeln!(io::stderr().lock(), "{}", escape(text, false)));
}

/// Prints a line that replaces the previous one, if stderr is a terminal.
pub(crate) fn live(text: &str) {
    let mut err = io::stderr().lock();
    if err.is_terminal() {
        drop(write!(err, "\r\x1b[2K{}", escape(text, false)));
        drop(err.flush());
    }
}

/// Clears the live line before the next message.
pub(crate) fn live_end() {
    live("");
}

/// Whether a terminal interprets a character instead of showing it: control characters (also those above
/// U+007F), and marks that change the direction of a text, which make it read as another text.
pub(crate) fn is_control(c: char) -> bool {
    let changes_direction = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    changes_direction || c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// Escapes such characters as in `\u202e`, except line ends and tabs.
fn escape(text: &str, coloured: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if coloured && let Some(colour) = style_code_at(rest) {
            shown.push_str(colour);
            rest = rest.get(colour.len()..).unwrap_or_default();
            continue;
        }
        if is_control(c) && !matches!(c, '\n' | '\t') {
            shown.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            shown.push(c);
        }
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    shown
}

/// The style code at the start of a text, if it is one that tables use.
fn style_code_at(text: &str) -> Option<&str> {
    const CODES: [&str; 8] = [
        "0", "1", "39", "38;5;8", "38;5;9", "38;5;10", "38;5;11", "38;5;14",
    ];

    let (code, _) = text.strip_prefix("\x1b[")?.split_once('m')?;
    CODES.contains(&code).then(|| text.get(..code.len() + 3))?
}

pub(crate) fn stdout_is_coloured() -> bool {
    wants_colour(
        std::env::var_os("NO_COLOR").as_deref(),
        std::env::var_os("CLICOLOR_FORCE").as_deref(),
        io::stdout().is_terminal(),
    )
}

/// `NO_COLOR` has precedence over `CLICOLOR_FORCE`, which has precedence over the terminal.
fn wants_colour(no_color: Option<&OsStr>, force: Option<&OsStr>, is_terminal: bool) -> bool {
    let no_color = no_color.is_some_and(|value| !value.is_empty());
    let force = force.is_some_and(|value| !value.is_empty() && value != "0");
    !no_color && (force || is_terminal)
}

/// The detail and code of a problem, and one line per field error.
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
        error.column.map(|column| format!("column {column}")),
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
    fn colour_is_for_terminals_unless_the_environment_decides() {
        let word = |text: &'static str| Some(OsStr::new(text));
        assert!(wants_colour(None, None, true));
        assert!(!wants_colour(None, None, false));
        assert!(!wants_colour(word("1"), word("1"), true));
        assert!(wants_colour(word(""), word("1"), false));
        assert!(!wants_colour(None, word("0"), false));
    }

    /// Mend A-L1: no text from outside reverses or overwrites a line, in a table or as JSON.
    #[test]
    fn control_characters_are_shown() {
        let evil = "a\u{202e}b\u{9b}2J\u{1b}[8mc\u{2066}\u{7f}\u{200f}\u{61c}\td\ne";
        let plain = "a\\u202eb\\u009b2J\\u001b[8mc\\u2066\\u007f\\u200f\\u061c\td\ne";
        assert_eq!(escape(evil, false), plain);
        assert_eq!(
            escape(evil, true),
            plain,
            "tables do not use the code that conceals text"
        );
        assert_eq!(
            escape("\u{1b}[38;5;10mok\u{1b}[0m ü", true),
            "\u{1b}[38;5;10mok\u{1b}[0m ü"
        );

        let value = serde_json::json!({ "question": "pay \u{202e}001\u{9b}?" });
        let shown = escape(&value.to_string(), false);
        assert!(!shown.chars().any(is_control), "{shown}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            value
        );
    }

    #[test]
    fn a_problem_shows_place_message_and_suggestion() {
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
