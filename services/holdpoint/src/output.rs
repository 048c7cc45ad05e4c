//! The only place that writes to the terminal: results to stdout, messages to stderr.
//!
//! A reader that goes away (`| head`) ends the process quietly; nothing here panics.

use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};

use holdpoint_contracts::{FieldError, Problem};

/// A line of the result.
///
/// # Errors
/// When stdout is closed.
pub(crate) fn line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
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
    drop(writeln!(io::stderr().lock(), "{text}"));
}

/// A line on stderr that replaces the one before; nothing when nobody watches.
pub(crate) fn live(text: &str) {
    let mut err = io::stderr().lock();
    if err.is_terminal() {
        drop(write!(err, "\r\x1b[2K{text}"));
        drop(err.flush());
    }
}

/// Ends a live line, so that the next message has a line of its own.
pub(crate) fn live_end() {
    live("");
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
