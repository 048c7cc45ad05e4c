use super::refusal;
use crate::{InstructionError, compile};

#[test]
fn an_error_says_what_was_understood_and_what_is_expected() {
    let text = "# Outreach\n\n  2. Hand off to bob, then skip.\n";
    assert_eq!(
        compile(text).unwrap_err(),
        [InstructionError {
            line: 3,
            column: 18,
            text: "bob, then skip.".to_owned(),
            message: "Understood `Hand off to`; expected a recipient such as `@user.nina` or `@role.sales`, found `bob`.".to_owned(),
            nearest: vec![
                "Hand off to @user.salesRep for personal outreach".to_owned(),
                "Hand off to @user.nina, timeout 3 days, then continue".to_owned(),
                "Hand over to @role.sales with message \"personal outreach\"".to_owned(),
            ],
        }]
    );
}

#[test]
fn all_errors_are_reported() {
    let text = "Wait 5 dayz\nFinish\nIf maybe, finish\nOtherwise, finish\nask bob \"x\"\nIf the answer is yes, finish\nDo it";
    let errors = compile(text).unwrap_err();
    let places: Vec<(usize, usize)> = errors
        .iter()
        .map(|error| (error.line, error.column))
        .collect();
    // The lines after a wrong condition or question are not errors for that.
    assert_eq!(places, [(1, 8), (3, 4), (5, 5), (7, 1)]);
}

#[test]
fn a_column_counts_characters() {
    let error = refusal("\tLog \"ÄÖÜ 🎉\" now");
    assert_eq!((error.column, error.text.as_str()), (14, "now"));
}

#[test]
fn hidden_characters_are_refused() {
    for (line, column, code) in [
        ("Wait 5\u{0} days", 7, "U+0000"),
        ("Log \"a\u{1b}[31m\"", 7, "U+001B"),
        ("Log \"a\u{202e}b\"", 7, "U+202E"),
        ("\u{7f}Wait 5 days", 1, "U+007F"),
        ("Wait 5 days\rFinish", 12, "U+000D"),
        ("Log \"a\u{2028}b\"", 7, "U+2028"),
    ] {
        let error = refusal(line);
        assert_eq!(error.column, column, "{line:?}");
        assert!(error.message.contains(code), "{line:?}: {}", error.message);
    }
    assert!(compile("\u{feff}Wait 5 days\tand 2 hours").is_ok());
}

#[test]
fn the_nearest_samples_begin_with_a_similar_word() {
    for (line, nearest) in [
        ("Wait 5 dayz", "Wait 5 days"),
        ("Wiat 5 days", "Wait 5 days"),
        (
            "Send email Introduction to contact",
            "Send email \"Introduction\" to contact",
        ),
        (
            "Hand off to bob",
            "Hand off to @user.nina, timeout 3 days, then continue",
        ),
        ("Log done", "Log \"Done\""),
        (
            "If no answer, send email \"Follow-up\" to contact",
            "If no reply, send email \"Follow-up\" to contact",
        ),
    ] {
        assert_eq!(
            refusal(line).nearest.first().map(String::as_str),
            Some(nearest),
            "{line}"
        );
    }
    for sample in crate::samples::SAMPLES {
        let text = format!("If no reply, finish\n{sample}");
        assert!(compile(&text).is_ok(), "{sample}");
    }
}

#[test]
fn likely_sentences_have_a_hint() {
    for (line, hint) in [
        (
            "Hand off if not interested",
            "A handoff needs a recipient, such as `Hand off to @user.nina`.",
        ),
        (
            "If not interested, finish",
            "write `contact replied positively` or `contact replied negatively`.",
        ),
        (
            "Repeat until contact replies",
            "A line repeats its step with for example `every 2 days until contact replies, at most 5 times`.",
        ),
        ("Call x, retry 3 times", "write `at most 3 attempts`."),
        (
            "Wait 2 business hours",
            "write `Wait 2 business days` or `Wait 5 hours`.",
        ),
        ("Wait until next Monday", "it is the next such day."),
        (
            "Wait 5 days and finish",
            "write the second one in the next line.",
        ),
    ] {
        let error = refusal(line);
        assert!(error.message.contains(hint), "{line}: {}", error.message);
    }
}
