//! The summary of a request's context: a few short lines for mails.

use serde_json::{Map, Value};

use super::plain_text::{cut, field_label};

/// Most lines; a last line reports that there are more.
const LINES_MAX: usize = 12;
/// Longest line, in characters.
const LINE_CHARS_MAX: usize = 200;
/// Entries of one list that are shown.
const ENTRIES_MAX: usize = 3;
/// These come first.
const FIRST: [&str; 3] = ["recommended_action", "contact", "findings"];

/// `Recommended action: Call her`, one line a field. Empty values and deeply nested ones are left out.
pub(crate) fn context_summary(context: &Value) -> Vec<String> {
    let Value::Object(fields) = context else {
        return value_text(context, 0)
            .map(|text| cut(&text, LINE_CHARS_MAX))
            .into_iter()
            .collect();
    };
    let first = FIRST.iter().filter_map(|name| fields.get_key_value(*name));
    let others = fields
        .iter()
        .filter(|(name, _)| !FIRST.contains(&name.as_str()));
    let mut lines: Vec<String> = first
        .chain(others)
        .filter_map(|(name, value)| {
            let line = format!("{}: {}", field_label(name), value_text(value, 0)?);
            Some(cut(&line, LINE_CHARS_MAX))
        })
        .collect();
    if lines.len() > LINES_MAX {
        lines.truncate(LINES_MAX);
        lines.push("… and more, where it is decided".to_owned());
    }
    lines
}

/// A value on one line. `None`: it is empty, or nested too deeply.
fn value_text(value: &Value, depth: usize) -> Option<String> {
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
    let mut texts: Vec<_> = entries
        .iter()
        .filter_map(|entry| value_text(entry, depth + 1))
        .collect();
    let over = texts.len().saturating_sub(ENTRIES_MAX);
    if over > 0 {
        texts.truncate(ENTRIES_MAX);
        texts.push(format!("{over} more"));
    }
    texts.join("; ")
}

fn pairs(fields: &Map<String, Value>, depth: usize) -> String {
    let pair = |(name, value): (&String, &Value)| {
        Some(format!("{name} {}", value_text(value, depth + 1)?))
    };
    let pairs: Vec<_> = fields.iter().filter_map(pair).collect();
    pairs.join(", ")
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
            context_summary(&context),
            [
                "Recommended action: Call her",
                "Contact: name Ann, score 7",
                "Activities: kind call, text Wants a pilot; text b; text c; 1 more",
            ]
        );
        assert_eq!(context_summary(&Value::Null), Vec::<String>::new());
        assert_eq!(context_summary(&json!("Just\nthis")), ["Just this"]);
        let many: Map<String, Value> = (0..40)
            .map(|n| (format!("f{n}"), json!("x".repeat(1_000))))
            .collect();
        let lines = context_summary(&many.into());
        assert_eq!(lines.len(), LINES_MAX + 1);
        assert!(lines.iter().all(|line| line.chars().count() <= 200));
    }
}
