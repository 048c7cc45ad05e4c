//! Lines that look like steps and must be refused. Each file has a line, then the column of its error and the end of
//! the message.

use super::refusal;

#[track_caller]
fn assert_refused(table: &str) {
    let lines: Vec<&str> = table.lines().collect();
    for entry in lines.chunks(2) {
        let [line, expected] = entry else {
            panic!("a line without an error: {entry:?}");
        };
        let (column, message) = expected.trim_start().split_once(": ").unwrap();
        let error = refusal(line);
        assert_eq!(
            (error.line, error.column.to_string().as_str()),
            (1, column),
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
        if error.message.starts_with("Understood") {
            let understood: String = line.chars().take(error.column - 1).collect();
            let begins = format!("Understood `{}`; expected ", understood.trim_end());
            assert!(
                error.message.starts_with(&begins),
                "{line}: {}",
                error.message
            );
        }
    }
}

#[test]
fn waits_are_not_guessed() {
    assert_refused(include_str!("refused/waits.txt"));
}

#[test]
fn handoffs_are_not_guessed() {
    assert_refused(include_str!("refused/handoffs.txt"));
}

#[test]
fn questions_are_not_guessed() {
    assert_refused(include_str!("refused/questions.txt"));
}

#[test]
fn mails_are_not_guessed() {
    assert_refused(include_str!("refused/mails.txt"));
}

#[test]
fn calls_are_not_guessed() {
    assert_refused(include_str!("refused/calls.txt"));
}

#[test]
fn conditions_are_not_guessed() {
    assert_refused(include_str!("refused/conditions.txt"));
}

#[test]
fn tags_are_not_guessed() {
    assert_refused(include_str!("refused/tags.txt"));
}

#[test]
fn repetitions_are_not_guessed() {
    assert_refused(include_str!("refused/repetitions.txt"));
}

#[test]
fn other_lines_are_not_guessed() {
    assert_refused(include_str!("refused/other_lines.txt"));
}
