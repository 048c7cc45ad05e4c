//! Whether a handoff is about an interested contact (S0-T2).

use serde_json::Value;

use crate::domain::views::handoff_briefing::StepSummary;

const WARM: [&str; 2] = ["warm", "interested"];

/// Words that say the opposite of what follows within the same part of the sentence.
const NEGATIONS: [&str; 9] = [
    "not", "no", "never", "without", "isn't", "wasn't", "aren't", "don't", "doesn't",
];

/// How many words before may negate.
const REACH: usize = 3;

/// `warm` or `interested` as a word that is not negated, or a true condition on `replied`, or
/// `sentiment: positive`. A reply does not count with `sentiment: negative`. What the author says outright counts alone.
#[must_use]
pub fn is_warm_lead(
    said: Option<bool>,
    message: &str,
    contact: &Value,
    steps: &[StepSummary],
) -> bool {
    said.unwrap_or_else(|| {
        match contact.get("sentiment").and_then(Value::as_str) {
            Some("positive") => true,
            // A condition on a negative reply holds because of a reply, too.
            Some("negative") => says_warm(message),
            Some(_) | None => says_warm(message) || steps.iter().any(has_replied),
        }
    })
}

/// How instructions write that the contact has not replied, or not in a certain way.
const NOT_REPLIED: &str = "!(has(contact.replied)";

/// A condition that held because of a reply.
fn has_replied(step: &StepSummary) -> bool {
    let text = step.condition.get("expression").and_then(Value::as_str);
    let is_negated = text.is_some_and(|text| text.contains(NOT_REPLIED));
    let held = !is_negated && step.condition.get("outcome") == Some(&Value::Bool(true));
    let values = step.condition.get("values");
    let replied = values.and_then(|values| values.get("contact.replied"));
    held && replied == Some(&Value::Bool(true))
}

fn says_warm(message: &str) -> bool {
    let lower = message.to_lowercase().replace('’', "'");
    // A negation does not reach beyond its part of the sentence.
    lower
        .split([',', ';', '.', '!', '?', ':', '\n'])
        .any(part_says_warm)
}

fn part_says_warm(part: &str) -> bool {
    let words: Vec<&str> = part
        .split(|c: char| !(c.is_alphanumeric() || c == '\''))
        .filter(|word| !word.is_empty())
        .collect();
    words.iter().enumerate().any(|(at, word)| {
        let before = words.get(at.saturating_sub(REACH)..at).unwrap_or_default();
        WARM.contains(word) && !before.iter().any(|word| NEGATIONS.contains(word))
    })
}
