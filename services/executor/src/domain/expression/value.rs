//! JSON to CEL and back, and how values are measured and shown.
//!
//! Owns that integers stay integers both ways. It must never lose a value silently: what JSON
//! cannot say is no value.

use std::collections::HashMap;
use std::sync::Arc;

use cel::objects::{Key, Map};
use chrono::{SecondsFormat, Utc};
use serde_json::{Number, Value};

use crate::domain::text::cut;

/// Longest value that the log keeps as it is, in bytes of text.
const MAX_SHOWN: usize = 1_024;

/// A JSON value for CEL: whole numbers are `int` (`uint` beyond 63 bits), others `double`.
pub(super) fn to_cel(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(flag) => cel::Value::Bool(*flag),
        Value::Number(number) => number_to_cel(number),
        Value::String(text) => cel::Value::String(Arc::new(text.clone())),
        Value::Array(items) => cel::Value::List(Arc::new(items.iter().map(to_cel).collect())),
        Value::Object(fields) => fields_to_cel(fields.iter()),
    }
}

/// An object for CEL from some of its fields.
pub(super) fn fields_to_cel<'f>(
    fields: impl Iterator<Item = (&'f String, &'f Value)>,
) -> cel::Value {
    let map: HashMap<Key, cel::Value> = fields
        .map(|(key, field)| (Key::from(key.as_str()), to_cel(field)))
        .collect();
    cel::Value::Map(Map { map: Arc::new(map) })
}

fn number_to_cel(number: &Number) -> cel::Value {
    if let Some(int) = number.as_i64() {
        return cel::Value::Int(int);
    }
    if let Some(int) = number.as_u64() {
        return cel::Value::UInt(int);
    }
    number.as_f64().map_or(cel::Value::Null, cel::Value::Float)
}

/// A CEL value as JSON, or `None` for what JSON cannot say (bytes, types, NaN). Times become
/// RFC 3339 text in UTC with milliseconds, durations a text (`5400000ms`).
pub(super) fn from_cel(value: &cel::Value) -> Option<Value> {
    Some(match value {
        cel::Value::Null => Value::Null,
        cel::Value::Bool(flag) => Value::Bool(*flag),
        cel::Value::Int(int) => Value::from(*int),
        cel::Value::UInt(int) => Value::from(*int),
        cel::Value::Float(float) => Value::Number(Number::from_f64(*float)?),
        cel::Value::String(text) => Value::String(text.to_string()),
        cel::Value::List(items) => Value::Array(items.iter().map(from_cel).collect::<Option<_>>()?),
        cel::Value::Map(fields) => Value::Object(
            fields
                .map
                .iter()
                .map(|(key, field)| Some((key.to_string(), from_cel(field)?)))
                .collect::<Option<_>>()?,
        ),
        cel::Value::Timestamp(at) => Value::String(
            at.with_timezone(&Utc)
                .to_rfc3339_opts(SecondsFormat::Millis, true),
        ),
        cel::Value::Duration(duration) => {
            Value::String(format!("{}ms", duration.num_milliseconds()))
        }
        cel::Value::Bytes(_)
        | cel::Value::Function(..)
        | cel::Value::Opaque(_)
        | cel::Value::Struct(_) => return None,
    })
}

/// About how many bytes a value takes as JSON.
pub(super) fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| size(item) + 1).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields
                .iter()
                .map(|(key, field)| key.len() + 4 + size(field))
                .sum::<usize>()
        }
    }
}

/// A value for the log: as it is, or described if it is large.
pub(super) fn shown(value: &Value) -> Value {
    if size(value) <= MAX_SHOWN {
        return value.clone();
    }
    match value {
        Value::String(text) => Value::String(cut(text, 200)),
        Value::Array(items) => Value::String(format!("list of {}", items.len())),
        Value::Object(fields) => Value::String(format!("object with {} fields", fields.len())),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// The kind of a value in words.
pub(super) const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
