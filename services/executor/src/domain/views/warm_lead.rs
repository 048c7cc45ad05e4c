//! Whether a handoff is about an interested contact (S0-T2).

use serde_json::Value;

use crate::domain::views::handoff_briefing::StepSummary;

const WARM: [&str; 2] = ["warm", "interested"];

/// Words that say the opposite of what follows within the same part of the sentence. An apostrophe may be missing.
const NEGATIONS: [&str; 29] = [
    "not", "no", "nobody", "none", "never", "neither", "nor", "cannot", "without", "hardly",
    "barely", "scarcely", "isnt", "wasnt", "arent", "werent", "dont", "doesnt", "didnt", "hasnt",
    "havent", "hadnt", "wont", "wouldnt", "cant", "couldnt", "shouldnt", "aint", "nothing",
];

/// Words that change no meaning between a negation and what it negates.
const FILLERS: [&str; 22] = [
    "a",
    "all",
    "an",
    "any",
    "at",
    "be",
    "been",
    "even",
    "in",
    "least",
    "much",
    "particularly",
    "really",
    "seem",
    "seemed",
    "so",
    "that",
    "the",
    "to",
    "too",
    "very",
    "yet",
];

/// How many words before may negate, fillers not counted.
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

const REPLIED: &str = "contact.replied";

/// A condition that held because of a reply.
fn has_replied(step: &StepSummary) -> bool {
    let text = step.condition.get("expression").and_then(Value::as_str);
    let is_positive = text.is_some_and(|text| without_negations(text).contains(REPLIED));
    let held = step.condition.get("outcome") == Some(&Value::Bool(true));
    let values = step.condition.get("values");
    let replied = values.and_then(|values| values.get(REPLIED));
    is_positive && held && replied == Some(&Value::Bool(true))
}

/// A condition without its parts `!(…)`. They hold because something is not so.
fn without_negations(condition: &str) -> String {
    let mut kept = String::new();
    let mut rest = condition;
    while let Some((before, negated)) = rest.split_once("!(") {
        kept.push_str(before);
        rest = after_bracket(negated);
    }
    kept + rest
}

/// What follows the bracket that closes an open one.
fn after_bracket(text: &str) -> &str {
    let mut open = 1_usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => open += 1,
            ')' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return text.get(at + 1..).unwrap_or_default();
        }
    }
    ""
}

fn says_warm(message: &str) -> bool {
    let lower = message.to_lowercase().replace('’', "'");
    // A negation does not reach beyond its part of the sentence.
    lower
        .split([',', ';', '.', '!', '?', ':', '\n'])
        .flat_map(|part| part.split(" but "))
        .any(part_says_warm)
}

fn part_says_warm(part: &str) -> bool {
    let words: Vec<&str> = part
        .split(|c: char| !(c.is_alphanumeric() || c == '\''))
        .filter(|word| !word.is_empty())
        .collect();
    words.iter().enumerate().any(|(at, word)| {
        let before = words.get(..at).unwrap_or_default().iter().rev();
        let mut before = before.filter(|word| !FILLERS.contains(word)).take(REACH);
        WARM.contains(word) && !before.any(|word| negates(word))
    })
}

fn negates(word: &str) -> bool {
    NEGATIONS.contains(&word.replace('\'', "").as_str())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    /// S0-T2: a true condition on `replied`. One that holds without a reply does not count.
    #[test]
    fn a_negated_part_of_a_condition_makes_no_warm_lead() {
        let replied = "has(contact.replied) && contact.replied == true";
        let negative = "(has(contact.sentiment) && contact.sentiment == \"negative\")";
        for (expression, is_warm) in [
            (replied.to_owned(), true),
            (format!("{replied} && !{negative}"), true),
            (format!("!({replied} && {negative})"), false),
            (format!("$step-02 == null && !({replied})"), false),
            (format!("!({replied} && {negative}) || {replied}"), true),
            ("!(contact.replied".to_owned(), false),
        ] {
            let values = json!({ "contact.replied": true });
            let condition = json!({ "expression": expression, "values": values, "outcome": true });
            let step = StepSummary {
                condition: Arc::new(condition),
                ..StepSummary::default()
            };
            let found = is_warm_lead(None, "", &json!({}), &[step]);
            assert_eq!(found, is_warm, "{expression}");
        }
    }
}
