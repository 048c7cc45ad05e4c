//! What a mail tells of a request's context: a few short lines.

use serde_json::{Map, Value};

/// Lines at most; where there are more, the last one says so.
const LINES_MAX: usize = 12;
/// Longest line, in characters.
const LINE_CHARS_MAX: usize = 200;
/// Entries of one list that are told.
const ENTRIES_MAX: usize = 3;
/// These come first.
const FIRST: [&str; 3] = ["recommended_action", "contact", "findings"];

/// `Recommended action: Call her`, a line a field; what is too deep, or says nothing, is left out.
pub(super) fn brief(context: &Value) -> Vec<String> {
    let Value::Object(fields) = context else {
        return told(context, 0)
            .map(|text| cut(&text))
            .into_iter()
            .collect();
    };
    let first = FIRST.iter().filter_map(|name| fields.get_key_value(*name));
    let others = fields
        .iter()
        .filter(|(name, _)| !FIRST.contains(&name.as_str()));
    let mut lines: Vec<String> = first
        .chain(others)
        .filter_map(|(name, value)| Some(cut(&format!("{}: {}", words(name), told(value, 0)?))))
        .collect();
    if lines.len() > LINES_MAX {
        lines.truncate(LINES_MAX);
        lines.push("… and more, where it is decided".to_owned());
    }
    lines
}

/// A value on one line; none where it says nothing, or is a list or object in a list in another.
fn told(value: &Value, depth: usize) -> Option<String> {
    let text = match value {
        Value::Null => return None,
        Value::Bool(is) => (if *is { "yes" } else { "no" }).to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        Value::Array(_) | Value::Object(_) if depth > 1 => return None,
        Value::Array(entries) => list(entries, depth),
        Value::Object(fields) => pairs(fields, depth),
    };
    (!text.is_empty()).then_some(text)
}

fn list(entries: &[Value], depth: usize) -> String {
    let mut told: Vec<_> = entries
        .iter()
        .filter_map(|entry| told(entry, depth + 1))
        .collect();
    let over = told.len().saturating_sub(ENTRIES_MAX);
    if over > 0 {
        told.truncate(ENTRIES_MAX);
        told.push(format!("{over} more"));
    }
    told.join("; ")
}

fn pairs(fields: &Map<String, Value>, depth: usize) -> String {
    let pair =
        |(name, value): (&String, &Value)| Some(format!("{name} {}", told(value, depth + 1)?));
    let pairs: Vec<_> = fields.iter().filter_map(pair).collect();
    pairs.join(", ")
}

/// `recommended_action` is `Recommended action`.
fn words(name: &str) -> String {
    let spaced = name.replace(['_', '-'], " ");
    let mut letters = spaced.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => spaced,
    }
}

fn cut(line: &str) -> String {
    if line.chars().count() <= LINE_CHARS_MAX {
        return line.to_owned();
    }
    let kept = line.chars().take(LINE_CHARS_MAX - 1);
    kept.chain(std::iter::once('…')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// S0-T2: what helps most comes first, and no part of it makes a mail long.
    #[test]
    fn a_context_becomes_a_few_lines() {
        let context = json!({
            "activities": [{"kind": "call", "text": "Wants\na pilot"}, {"text": "b"}, {"text": "c"}, {"text": "d"}],
            "contact": {"name": "Ann", "score": 7, "deals": [{"stage": "won"}]},
            "deals": [],
            "recommended_action": "Call her",
        });
        assert_eq!(
            brief(&context),
            [
                "Recommended action: Call her",
                "Contact: name Ann, score 7",
                "Activities: kind call, text Wants a pilot; text b; text c; 1 more",
            ]
        );
        assert_eq!(brief(&Value::Null), Vec::<String>::new());
        assert_eq!(brief(&json!("Just\nthis")), ["Just this"]);
        let many: Map<String, Value> = (0..40)
            .map(|n| (format!("f{n}"), json!("x".repeat(1_000))))
            .collect();
        let lines = brief(&many.into());
        assert_eq!(lines.len(), LINES_MAX + 1);
        assert!(lines.iter().all(|line| line.chars().count() <= 200));
    }
}
