//! Values that a schema describes, for results and answers that a script does not give.

use serde_json::{Map, Value, json};

/// Deepest nesting of a generated result.
const SAMPLE_DEPTH_MAX: usize = 8;

/// Most fields of a generated object.
const SAMPLE_FIELDS_MAX: usize = 100;

/// A small value that a JSON Schema describes.
pub(super) fn sample(schema: &Value) -> Value {
    sample_within(schema, SAMPLE_DEPTH_MAX)
}

fn sample_within(schema: &Value, depth: usize) -> Value {
    for given in ["const", "default"] {
        if let Some(value) = schema.get(given) {
            return value.clone();
        }
    }
    let first = |list: &str| schema.get(list).and_then(|list| list.get(0));
    if let Some(value) = first("examples").or_else(|| first("enum")) {
        return value.clone();
    }
    if let Some(choice) = first("oneOf").or_else(|| first("anyOf")) {
        return depth
            .checked_sub(1)
            .map_or(Value::Null, |depth| sample_within(choice, depth));
    }
    let kind = schema.get("type");
    let kind = kind.and_then(|kind| kind.get(0).unwrap_or(kind).as_str());
    match kind {
        Some("string") => json!("text"),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("null") => Value::Null,
        Some(_) | None => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let Some(depth) = depth.checked_sub(1) else {
                return json!({});
            };
            let fields = properties.into_iter().flatten().take(SAMPLE_FIELDS_MAX);
            let fields: Map<_, _> = fields
                .map(|(name, schema)| (name.clone(), sample_within(schema, depth)))
                .collect();
            Value::Object(fields)
        }
    }
}
