//! How a patch changes the fields of a contact.

use serde_json::{Map, Value};

/// RFC 7386: `null` removes a field. The other fields stay in their order.
pub(crate) fn merge_patch(
    fields: &Map<String, Value>,
    patch: &Map<String, Value>,
) -> Map<String, Value> {
    let mut fields = fields.clone();
    for (name, value) in patch {
        match value {
            Value::Null => {
                fields.shift_remove(name);
            }
            Value::Object(inner) => {
                let empty = Map::new();
                let old = fields
                    .get(name)
                    .and_then(Value::as_object)
                    .unwrap_or(&empty);
                let merged = merge_patch(old, inner);
                fields.insert(name.clone(), Value::Object(merged));
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                fields.insert(name.clone(), value.clone());
            }
        }
    }
    fields
}
