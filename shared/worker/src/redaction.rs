//! Hides values that no result, error or snapshot may show: the token of a step, and secrets of the node.
//!
//! Owns the replacement. It must never log or store a value.

use serde_json::{Number, Value};

/// In place of a secret.
pub(crate) const SECRET: &str = "[secret]";

/// In place of the token of a step.
const TOKEN: &str = "[token]";

/// The hidden values of one call.
#[derive(Clone, Default)]
pub(crate) struct Redaction {
    /// The longest first, because a shorter one may be a part of it.
    hidden: Vec<Hidden>,
}

#[derive(Clone)]
struct Hidden {
    value: String,
    mark: &'static str,
    /// The value as a JSON number, which may be written in another form.
    number: Option<f64>,
}

impl Redaction {
    pub(crate) fn add(&mut self, value: &str, mark: &'static str) {
        // Programs often cut the line break at the end of a key.
        let value = value.trim();
        if value.is_empty() {
            return;
        }
        let known = |it: &Hidden| it.value.len() >= value.len();
        let at = self.hidden.partition_point(known);
        let hidden = Hidden {
            value: value.to_owned(),
            mark,
            number: value.parse().ok(),
        };
        self.hidden.insert(at, hidden);
    }

    /// With the token of the step too.
    pub(crate) fn with_token(&self, token: Option<&str>) -> Self {
        let mut all = self.clone();
        all.add(token.unwrap_or_default(), TOKEN);
        all
    }

    pub(crate) fn hide_text(&self, text: &str) -> String {
        let hidden = self.hidden.iter();
        hidden.fold(text.to_owned(), |text, it| text.replace(&it.value, it.mark))
    }

    /// Hides in the end of a longer text. A value may begin before it.
    pub(crate) fn hide_in_end(&self, text: &str) -> String {
        let text = text.trim_start_matches(char::REPLACEMENT_CHARACTER);
        let ends = self.hidden.iter().flat_map(|it| {
            let starts = it.value.char_indices();
            starts.filter_map(|(at, _)| it.value.get(at..))
        });
        let rests = ends.filter_map(|end| text.strip_prefix(end));
        let rest = rests.min_by_key(|rest| rest.len());
        self.hide_text(rest.unwrap_or(text))
    }

    /// Hides in the start of a longer text. A value may end after it.
    pub(crate) fn hide_in_start(&self, text: &str) -> String {
        // A character that is cut.
        let cut = text.strip_suffix(char::REPLACEMENT_CHARACTER);
        let text = cut.unwrap_or(text);
        let starts = self.hidden.iter().flat_map(|it| {
            let ends = it.value.char_indices().map(|(at, c)| at + c.len_utf8());
            ends.filter_map(|end| it.value.get(..end))
        });
        let rests = starts.filter_map(|start| text.strip_suffix(start));
        let rest = rests.min_by_key(|rest| rest.len());
        self.hide_text(rest.unwrap_or(text))
    }

    /// Hides in all texts, names and numbers of a value. Values from a file have a bounded depth, because the JSON
    /// reader refuses deeper ones.
    pub(crate) fn hide_in(&self, value: &mut Value) {
        if self.hidden.is_empty() {
            return;
        }
        match value {
            Value::String(text) => *text = self.hide_text(text),
            Value::Number(number) => {
                if let Some(hidden) = self.find_number(number) {
                    *value = Value::from(hidden.mark);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide_in(item)),
            Value::Object(fields) => {
                let shown = std::mem::take(fields).into_iter().map(|(name, mut field)| {
                    self.hide_in(&mut field);
                    (self.hide_text(&name), field)
                });
                *fields = shown.collect();
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn find_number(&self, number: &Number) -> Option<&Hidden> {
        let text = number.to_string();
        self.hidden.iter().find(|it| {
            text.contains(&it.value) || (it.number.is_some() && it.number == number.as_f64())
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(values: &[&str]) -> Redaction {
        let mut all = Redaction::default();
        for value in values {
            all.add(value, SECRET);
        }
        all
    }

    #[test]
    fn a_value_that_contains_another_one_is_hidden_as_a_whole() {
        for values in [["k-1", "k-1-long"], ["k-1-long", "k-1"]] {
            let shown = of(&values).hide_text("k-1-long k-1");
            assert_eq!(shown, "[secret] [secret]");
        }
        assert_eq!(of(&[""]).hide_text("k"), "k");
        let shown = of(&["k-1"])
            .with_token(Some("hps_k-1"))
            .hide_text("hps_k-1 k-1");
        assert_eq!(shown, "[token] [secret]");
    }

    #[test]
    fn a_value_of_digits_is_hidden_as_a_number_too() {
        let long = "123456789012345678901234";
        for (secret, answer) in [
            ("482915", json!(482_915)),
            ("0482915", json!(482_915)),
            ("48.50", json!(48.5)),
            (long, serde_json::from_str(long).unwrap()),
        ] {
            let mut shown = json!({ "a": [answer, 7, true] });
            of(&[secret]).hide_in(&mut shown);
            assert_eq!(shown, json!({ "a": ["[secret]", 7, true] }), "{secret}");
        }
    }

    #[test]
    fn the_rest_of_a_value_is_hidden_at_the_start_of_a_cut_text() {
        let shown = of(&["-----\nabc\ndef\n"]);
        for text in ["c\ndef failed", "\u{fffd}c\ndef failed", " failed"] {
            assert_eq!(shown.hide_in_end(text), " failed");
        }
        assert_eq!(shown.hide_text("c\ndef failed"), "c\ndef failed");
    }
}
