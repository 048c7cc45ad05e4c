//! Lines that look like steps and must be refused. Each file has a line, then the column of its error and the end of
//! the message.

use std::collections::BTreeSet;

use super::refusal;

/// Checks a table of refused lines after other lines, and gives the number of its lines.
#[track_caller]
pub(super) fn assert_refused(before: &str, table: &str) -> usize {
    let number = before.lines().count() + 1;
    let mut seen = BTreeSet::new();
    let lines: Vec<&str> = table.lines().collect();
    for entry in lines.chunks(2) {
        let [line, expected] = entry else {
            panic!("a line without an error: {entry:?}");
        };
        let (column, message) = expected.trim_start().split_once(": ").unwrap();
        assert!(seen.insert(line), "{line} is written twice");
        let error = refusal(&format!("{before}{line}"));
        assert_eq!(
            (error.line, error.column.to_string().as_str()),
            (number, column),
            "{line}: {}",
            error.message
        );
        assert!(
            error.message.ends_with(message),
            "{line}: {}",
            error.message
        );
        let rest: String = line.chars().skip(error.column - 1).take(80).collect();
        assert_eq!(error.text, rest.trim_end(), "{line}");
        // Words that are cut begin with `…`.
        if error.message.starts_with("Understood `") && !error.message.starts_with("Understood `…")
        {
            let understood: String = line.chars().take(error.column - 1).collect();
            let begins = format!("Understood `{}`; expected ", understood.trim_end());
            assert!(
                error.message.starts_with(&begins),
                "{line}: {}",
                error.message
            );
        }
    }
    seen.len()
}

#[test]
fn waits_are_not_guessed() {
    assert_refused("", include_str!("refused/waits.txt"));
}

#[test]
fn handoffs_are_not_guessed() {
    assert_refused("", include_str!("refused/handoffs.txt"));
}

#[test]
fn questions_are_not_guessed() {
    assert_refused("", include_str!("refused/questions.txt"));
}

#[test]
fn mails_are_not_guessed() {
    assert_refused("", include_str!("refused/mails.txt"));
}

#[test]
fn calls_are_not_guessed() {
    assert_refused("", include_str!("refused/calls.txt"));
}

#[test]
fn conditions_are_not_guessed() {
    assert_refused("", include_str!("refused/conditions.txt"));
}

#[test]
fn tags_are_not_guessed() {
    assert_refused("", include_str!("refused/tags.txt"));
}

#[test]
fn repetitions_are_not_guessed() {
    assert_refused("", include_str!("refused/repetitions.txt"));
}

#[test]
fn other_lines_are_not_guessed() {
    assert_refused("", include_str!("refused/other_lines.txt"));
}
