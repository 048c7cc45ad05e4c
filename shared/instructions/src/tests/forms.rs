//! One table for each form of docs/instructions.md: lines that give its steps, and lines that look alike and are refused.
//!
//! A table has the form, perhaps a line before all its lines, the steps with their lines, and the refused lines.

use std::collections::BTreeSet;

use serde_json::Value;

use super::refused::assert_refused;
use super::steps;
use crate::write_step;

/// Fewest lines of each half of a table.
const LINES_MIN: usize = 20;

const DOCUMENTATION: &str = include_str!("../../../../docs/instructions.md");

/// The heads of the tables of forms in the documentation.
const HEADS: [&str; 2] = ["| line | step |", "| words | holds if |"];

macro_rules! forms {
    ($($name:ident)*) => {
        const TABLES: &[&str] = &[$(include_str!(concat!("forms/", stringify!($name), ".txt"))),*];
        $(
            #[test]
            fn $name() {
                assert_form(include_str!(concat!("forms/", stringify!($name), ".txt")));
            }
        )*
    };
}

forms! {
    wait_for_a_time
    wait_until_a_date
    wait_until_a_weekday
    wait_for_business_days
    wait_for_a_reply
    wait_for_a_signal
    mail_with_a_template
    mail_with_a_text
    handoff
    question
    call
    call_with_limits
    call_after_approval
    for_each
    change_of_the_contact
    added_tags
    removed_tags
    task
    log
    run_of_an_agent
    end_of_the_run
    repetition
    no_reply
    reply
    tone_of_a_reply
    field_that_fits
    field_that_differs
    number_that_compares
    missing_value
    deal
    answer
    result
    cel
    otherwise
}

#[test]
fn every_form_of_the_documentation_has_a_table() {
    let forms: BTreeSet<&str> = TABLES.iter().map(|table| form(table)).collect();
    assert_eq!(forms.len(), TABLES.len());
    for head in HEADS {
        let (_, table) = DOCUMENTATION.split_once(head).unwrap();
        let rows = table.lines().skip(2).take_while(|row| row.starts_with('|'));
        for row in rows {
            let (form, _) = row.strip_prefix("| `").unwrap().split_once('`').unwrap();
            assert!(forms.contains(form), "{form}");
        }
    }
}

fn form(table: &str) -> &str {
    table
        .lines()
        .next()
        .unwrap()
        .strip_prefix("form: ")
        .unwrap()
}

#[track_caller]
fn assert_form(table: &str) {
    let (accepted, refused) = table.split_once("\nrefused\n").unwrap();
    let mut accepted = accepted.lines().skip(1).peekable();
    let before = accepted.next_if(|line| line.starts_with("after: "));
    let before = before.map_or_else(String::new, |line| {
        format!("{}\n", line.trim_start_matches("after: "))
    });
    let mut expected = Vec::new();
    let mut lines = BTreeSet::new();
    for entry in accepted {
        match entry.strip_prefix("    ") {
            Some(line) => {
                assert_steps(&before, line, &expected);
                assert!(lines.insert(line), "{line} is written twice");
            }
            None => expected = read_steps(entry),
        }
    }
    assert!(lines.len() >= LINES_MIN, "{} lines", lines.len());
    let refused = assert_refused(&before, refused);
    assert!(refused >= LINES_MIN, "{refused} refused lines");
}

/// The steps of an entry: an object, or a list for a line that repeats its step.
fn read_steps(entry: &str) -> Vec<Value> {
    let steps: Value = serde_json::from_str(entry).unwrap();
    steps.as_array().cloned().unwrap_or_else(|| vec![steps])
}

/// The line gives these steps, and so do their words.
#[track_caller]
fn assert_steps(before: &str, line: &str, expected: &[Value]) {
    let found = steps(&format!("{before}{line}"));
    let count = before.lines().count();
    assert_eq!(&found[count..], expected, "{line}");
    let words = found.iter().map(|step| {
        let words = write_step(step.as_object().unwrap());
        words.unwrap_or_else(|| panic!("{line}: {step} has no words"))
    });
    let words: Vec<String> = words.collect();
    assert_eq!(steps(&words.join("\n")), found, "{line}: {words:#?}");
}
