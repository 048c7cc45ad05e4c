use std::time::{Duration, Instant};

use crate::{INSTRUCTIONS_BYTES_MAX, STEPS_MAX, compile, write_step};

/// Far more than any text takes without optimization, and far less than quadratic work would.
const TIME_MAX: Duration = Duration::from_secs(5);

/// One line that repeats a piece up to the limit.
fn line(before: &str, piece: &str) -> String {
    let count = (INSTRUCTIONS_BYTES_MAX - before.len()) / piece.len();
    before.to_owned() + &piece.repeat(count)
}

#[test]
fn hostile_texts_take_linear_time() {
    for (before, piece) in [
        ("Call x with a ", "["),
        ("Call x with a ", "{\"a\":"),
        ("Call x with a ", "[1,"),
        ("Call x with ", "a 1 and "),
        ("", "\""),
        ("", "“"),
        ("", "{{"),
        ("", "{{}}"),
        ("", "$a[\"b\"]"),
        ("", "$a[\""),
        ("", "$a."),
        ("", "if "),
        ("If ", "no reply and "),
        ("If ", "no reply or "),
        ("If ", "it is not so that "),
        ("If contact.a is 1", " and contact.a is 1"),
        ("If contact.a", ".a"),
        ("If {{ a", " && a"),
        ("Hand off to ", "@user.a and "),
        ("Hand off to @user.a", ", then"),
        ("Ask \"x\" with options ", "\"a\", "),
        ("Wait ", "1d"),
        ("Wait ", "1 day "),
        ("Wait ", "9"),
        ("Wait 1", ".1"),
        ("", "wait "),
        ("", "then "),
        ("", "-"),
        ("", "- "),
        ("", "\\"),
        ("Log \"", "\\\\"),
        ("Log \"", "é"),
        ("", "é"),
        ("", "x\n"),
        ("", "wait 5 days\n"),
        ("", "otherwise\n"),
        ("", "If no reply, finish\nOtherwise, finish\n"),
        ("", "#"),
        ("", ","),
        ("", ":"),
        ("", "1:"),
        ("", "\n"),
        ("", " "),
        ("Finish ", "and "),
        ("Call x", ", timeout 1 day"),
        ("", "for each $a, "),
        ("", "call x with a 1, "),
        ("Update contact: ", "a 1, "),
    ] {
        let text = line(before, piece);
        let start = Instant::now();
        let result = compile(&text);
        let took = start.elapsed();
        assert!(took < TIME_MAX, "{before}{piece}: {took:?}");
        if let Err(errors) = result {
            assert!(errors.len() <= 100, "{before}{piece}");
            for error in errors {
                assert!(
                    error.message.chars().count() < 1_000,
                    "{before}{piece}: {}",
                    error.message.len()
                );
            }
        }
    }
}

#[test]
fn a_long_quoted_text_has_words() {
    let text = line("Log \"", "é\\n") + "\"";
    let steps = compile(&text[..]).map_err(|errors| errors[0].message.clone());
    let steps = steps.unwrap_or_else(|message| panic!("{message}"));
    assert!(write_step(&steps[0].fields).is_some());
}

#[test]
fn a_text_has_limits() {
    let long = "#".repeat(INSTRUCTIONS_BYTES_MAX + 1);
    assert_eq!(
        compile(&long).unwrap_err()[0].message,
        "The instructions have 65537 bytes; at most 65536 are allowed."
    );
    assert_eq!(
        compile(&"Finish\n".repeat(STEPS_MAX)).unwrap().len(),
        STEPS_MAX
    );
    let errors = compile(&"Finish\n".repeat(STEPS_MAX + 5)).unwrap_err();
    assert_eq!(errors.len(), 1);
    assert_eq!(
        (errors[0].line, errors[0].message.as_str()),
        (1_001, "Instructions have at most 1000 steps.")
    );
    assert_eq!(compile(&"x\n".repeat(500)).unwrap_err().len(), 100);
    for text in ["", "\n \r\n", "# nothing\n"] {
        assert_eq!(
            compile(text).unwrap_err()[0].message,
            "The instructions have no steps; write for example `Wait 5 days`."
        );
    }
}

#[test]
fn many_different_options_take_linear_time() {
    let options: Vec<String> = (0..6_000).map(|number| format!("\"{number}\"")).collect();
    let text = format!("Ask \"x\" with options {}", options.join(", "));
    let start = Instant::now();
    let errors = compile(&text).unwrap_err();
    assert!(
        errors[0]
            .message
            .starts_with("A question has from 2 to 100 different options")
    );
    assert!(start.elapsed() < TIME_MAX);
}
