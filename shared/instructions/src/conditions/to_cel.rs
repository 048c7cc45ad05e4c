//! Conditions in CEL. A missing field of the contact reads as false, so that a test never fails the step.

use serde_json::Value;

use super::condition::{Check, Comparison, Condition, Path, Test, Tone, negate};
use crate::quotes::quote;

/// Before the test of a deal, which is called `deal` there.
pub(super) const SOME_DEAL: &str = "(has(contact.deals) && contact.deals.exists(deal, ";

/// Before the same test of the field `deal` of the contact.
pub(super) const OR_ONLY_DEAL: &str = " || ";

const REPLIED: &str = "has(contact.replied) && contact.replied == true";

impl Condition {
    pub(crate) fn to_cel(&self) -> String {
        match self {
            Self::All(tests) => {
                let tests: Vec<String> = tests.iter().map(Test::to_cel).collect();
                tests.join(" && ")
            }
            Self::Any(tests) => {
                let tests = tests.iter().map(|test| format!("({})", test.to_cel()));
                tests.collect::<Vec<String>>().join(" || ")
            }
            Self::Not(inner) => negate(&inner.to_cel()),
            Self::Cel(text) => text.clone(),
        }
    }
}

impl Test {
    fn to_cel(&self) -> String {
        match self {
            Self::Reply { tone, is_negated } => {
                let held = tone.map_or_else(|| REPLIED.to_owned(), reply_with_tone);
                if *is_negated { negate(&held) } else { held }
            }
            Self::Field { path, check } => check.to_cel(path),
        }
    }
}

fn reply_with_tone(tone: Tone) -> String {
    let word = quote(tone.word());
    format!("{REPLIED} && has(contact.sentiment) && contact.sentiment == {word}")
}

impl Tone {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Positive => "positive",
            Self::Negative => "negative",
        }
    }
}

impl Check {
    fn to_cel(&self, path: &Path) -> String {
        if !path.is_of_deal() {
            return self.of_value(path);
        }
        let only = path.of_only_deal();
        let of_some_deal = |check: &Self| {
            let (listed, only) = (check.of_value(path), check.of_value(&only));
            format!("{SOME_DEAL}{listed}){OR_ONLY_DEAL}{only})")
        };
        match self {
            Self::Compare(Comparison::NotEqual, value) => negate(&of_some_deal(&Self::Compare(
                Comparison::Equal,
                value.clone(),
            ))),
            Self::ContainsNot(text) => negate(&of_some_deal(&Self::Contains(text.clone()))),
            Self::IsMissing => negate(&of_some_deal(&Self::IsSet)),
            Self::Compare(..)
            | Self::Contains(_)
            | Self::StartsWith(_)
            | Self::EndsWith(_)
            | Self::IsSet => of_some_deal(self),
        }
    }

    fn of_value(&self, path: &Path) -> String {
        let name = path.text();
        let guarded = |test: String| format!("{}{test}", guard(path));
        match self {
            Self::Compare(Comparison::NotEqual, value) if path.is_of_contact() => {
                negate(&guarded(format!("{name} == {}", literal(value))))
            }
            Self::Compare(comparison, value) => guarded(format!(
                "{name} {} {}",
                comparison.operator(),
                literal(value)
            )),
            Self::Contains(text) => guarded(format!("{name}.contains({})", quote(text))),
            Self::ContainsNot(text) => {
                negate(&guarded(format!("{name}.contains({})", quote(text))))
            }
            Self::StartsWith(text) => guarded(format!("{name}.startsWith({})", quote(text))),
            Self::EndsWith(text) => guarded(format!("{name}.endsWith({})", quote(text))),
            Self::IsSet => is_set(path),
            Self::IsMissing => negate(&is_set(path)),
        }
    }
}

impl Comparison {
    pub(super) const fn operator(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Above => ">",
            Self::Below => "<",
            Self::AtLeast => ">=",
            Self::AtMost => "<=",
        }
    }
}

/// The checks that come before a test of a field of the contact, which may be missing.
fn guard(path: &Path) -> String {
    if path.is_of_contact() {
        return presence(path);
    }
    String::new()
}

fn presence(path: &Path) -> String {
    let checks = path
        .levels()
        .into_iter()
        .map(|level| format!("has({level}) && "));
    checks.collect()
}

/// An empty text counts as not set. The result of a completed step may lack the key.
fn is_set(path: &Path) -> String {
    let name = path.text();
    let guard = if path.is_one_key() || !name.starts_with('$') {
        presence(path)
    } else {
        // A deeper key of a skipped step reads as null, and `has` fails on null.
        String::new()
    };
    format!("{guard}{name} != null && {name} != \"\"")
}

fn literal(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}
