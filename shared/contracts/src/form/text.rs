//! Texts of people and programs: words that YAML reads as booleans, and control characters.

use serde::{Deserialize, Deserializer, de::Error};
use serde_json::Value;

/// Reads a list of words, as `options`. A boolean is refused with the way to mend it: YAML reads `yes`
/// and `no` as booleans where they are not quoted.
///
/// # Errors
/// When an item is not a text.
pub fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let values = Vec::<Value>::deserialize(deserializer)?;
    let words = values.iter().map(word);
    words.collect::<Result<_, _>>().map_err(Error::custom)
}

pub(super) fn word(value: &Value) -> Result<String, String> {
    match value {
        Value::String(word) => Ok(word.clone()),
        Value::Bool(is) => {
            let meant = if *is { "yes" } else { "no" };
            Err(format!(
                "`{is}` is a boolean: put the word in quotes, \"{is}\" or \"{meant}\""
            ))
        }
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Err(format!("`{value}` is not a text: put it in quotes"))
        }
    }
}

/// A text without control characters; newline and tab stay.
#[must_use]
pub fn plain(text: &str) -> String {
    let is_kept = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    text.chars().filter(is_kept).collect()
}

/// The same for every text in a value, and for its keys.
#[must_use]
pub fn plain_value(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(plain(text)),
        Value::Array(items) => items.iter().map(plain_value).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (plain(name), plain_value(value)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}
