//! The words of conditions.

use serde_json::Value;

use super::condition::{Check, Comparison, Condition, Path, Test, Tone};
use crate::quotes::quote;

/// Words that [`super::condition`] reads as the same condition.
pub(super) fn to_words(condition: &Condition) -> String {
    match condition {
        Condition::All(tests) => join(tests, " and "),
        Condition::Any(tests) => join(tests, " or "),
        Condition::Not(inner) => format!("it is not so that {}", to_words(inner)),
        Condition::Cel(cel) => format!("{{{{ {cel} }}}}"),
    }
}

fn join(tests: &[Test], word: &str) -> String {
    let tests: Vec<String> = tests.iter().map(test_words).collect();
    tests.join(word)
}

fn test_words(test: &Test) -> String {
    match test {
        Test::Reply { tone, is_negated } => reply_words(*tone, *is_negated).to_owned(),
        Test::Field { path, check } => check_words(path, check),
    }
}

const fn reply_words(tone: Option<Tone>, is_negated: bool) -> &'static str {
    match (tone, is_negated) {
        (None, false) => "contact replied",
        (None, true) => "no reply",
        (Some(Tone::Positive), false) => "contact replied positively",
        (Some(Tone::Positive), true) => "contact did not reply positively",
        (Some(Tone::Negative), false) => "contact replied negatively",
        (Some(Tone::Negative), true) => "contact did not reply negatively",
    }
}

fn check_words(path: &Path, check: &Check) -> String {
    let name = path.text();
    match check {
        Check::Compare(comparison, value) => {
            format!(
                "{name} {} {}",
                comparison_words(*comparison),
                value_words(value)
            )
        }
        Check::Contains(text) => format!("{name} contains {}", quote(text)),
        Check::ContainsNot(text) => format!("{name} does not contain {}", quote(text)),
        Check::StartsWith(text) => format!("{name} starts with {}", quote(text)),
        Check::EndsWith(text) => format!("{name} ends with {}", quote(text)),
        Check::IsSet => format!("{name} is set"),
        Check::IsMissing => format!("{name} is missing"),
    }
}

const fn comparison_words(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Equal => "is",
        Comparison::NotEqual => "is not",
        Comparison::Above => "is above",
        Comparison::Below => "is below",
        Comparison::AtLeast => "is at least",
        Comparison::AtMost => "is at most",
    }
}

fn value_words(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}
