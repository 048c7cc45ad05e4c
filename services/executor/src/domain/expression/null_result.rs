//! The result of a step that has none, for CEL: null, and so is every path below it that an expression names.

use serde_json::{Map, Value};

use super::template::{Path, Segment};

/// Highest index of a list that is made up; a higher one does not exist.
const INDEX_MAX: usize = 100;

/// A value in which the named paths end in null. If an expression names a path and a longer one, the shorter one is
/// null, and the longer one does not exist.
pub(super) fn null_result(named: &[&Path]) -> Value {
    let mut result = Value::Null;
    let is_below = |path: &Path, other: &Path| {
        let (long, short) = (&path.segments, &other.segments);
        long.len() > short.len() && long.starts_with(short)
    };
    for path in named {
        if !named.iter().any(|other| is_below(path, other)) {
            add(&mut result, &path.segments);
        }
    }
    result
}

fn add(value: &mut Value, segments: &[Segment]) {
    let Some((first, rest)) = segments.split_first() else {
        return;
    };
    match first {
        Segment::Key(key) => {
            if !value.is_object() {
                *value = Value::Object(Map::new());
            }
            if let Value::Object(fields) = value {
                add(fields.entry(key.clone()).or_insert(Value::Null), rest);
            }
        }
        Segment::Index(index) => {
            if !value.is_array() {
                *value = Value::Array(Vec::new());
            }
            if let Value::Array(items) = value {
                let length = items.len().max(index.saturating_add(1).min(INDEX_MAX));
                items.resize(length, Value::Null);
                if let Some(item) = items.get_mut(*index) {
                    add(item, rest);
                }
            }
        }
    }
}
