//! JSON Schemas of tools: which ones are taken, and what is wrong with a value.
//!
//! All runs wait while a value is checked, so a schema has a size limit, no references and only patterns that
//! are matched in linear time.

use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::size::json_bytes;
use holdpoint_ids::nearest;
use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;

/// Largest schema, in bytes of JSON.
pub const SCHEMA_BYTES_MAX: usize = 16 * 1024;

/// Most errors that are reported of one value.
const ERRORS_MAX: usize = 10;

/// Largest schema and value of which several errors are listed, in bytes of JSON.
const LISTED_BYTES_MAX: usize = 4 * 1024;

/// Largest compiled pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 64 * 1024;

/// Longest text of one error, in characters: it may quote the value.
const ERROR_CHARS_MAX: usize = 300;

/// Keywords that point elsewhere. A cycle of them would never end.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Why a schema is refused, if it is.
#[must_use]
pub fn schema_error(schema: &Value) -> Option<String> {
    if !schema.is_object() {
        return Some("expected a JSON Schema, which is an object".to_owned());
    }
    let bytes = json_bytes(schema);
    if bytes > SCHEMA_BYTES_MAX {
        return Some(format!(
            "the schema is {bytes} bytes of JSON; at most {SCHEMA_BYTES_MAX} are allowed"
        ));
    }
    if let Some(keyword) = reference_in(schema) {
        return Some(format!(
            "the schema has `{keyword}`; write the part in place, because references are not followed"
        ));
    }
    compile(schema).err()
}

/// What is wrong with a value, with pointers into it: up to ten errors, or one of a large schema or value. Empty: it
/// fits.
#[must_use]
pub fn value_errors(schema: &Value, value: &Value) -> Vec<FieldError> {
    let validator = match compile(schema) {
        Ok(validator) => validator,
        // It was checked when the tool was registered.
        Err(message) => return vec![FieldError::at("", message)],
    };
    let errors = errors_of(&validator, schema, value).take(ERRORS_MAX);
    errors.map(|error| describe(&error)).collect()
}

/// The errors of a value; of a large schema or value only the first one, because the list of all may be far larger than
/// both together.
fn errors_of<'v>(
    validator: &'v Validator,
    schema: &Value,
    value: &'v Value,
) -> Box<dyn Iterator<Item = ValidationError<'v>> + 'v> {
    if json_bytes(schema).max(json_bytes(value)) > LISTED_BYTES_MAX {
        Box::new(validator.validate(value).err().into_iter())
    } else {
        Box::new(validator.iter_errors(value))
    }
}

/// What is wrong with arguments whose texts may be unknown, such as placeholders. Only errors that no value of them
/// could mend are listed, and of a large schema or value at most one.
#[must_use]
pub fn literal_errors(
    schema: &Value,
    value: &Value,
    is_unknown: &dyn Fn(&str) -> bool,
) -> Vec<FieldError> {
    let Ok(validator) = compile(schema) else {
        return Vec::new();
    };
    let is_certain = |error: &ValidationError<'_>| {
        let at = value.pointer(error.instance_path().as_str());
        let at = at.unwrap_or(&Value::Null);
        let rule = error.schema_path().as_str();
        let is_about_names = NAME_RULES.iter().any(|name| rule.ends_with(name));
        let may_not_apply = CONDITIONS.iter().any(|name| rule.contains(name));
        !may_not_apply && (!has_text(at, is_unknown) || (is_about_names && !at.is_string()))
    };
    let errors = errors_of(&validator, schema, value).filter(is_certain);
    errors
        .take(ERRORS_MAX)
        .map(|error| {
            let (text, nearest) = misspelled_name(schema, &error).unwrap_or_default();
            FieldError {
                text,
                nearest,
                ..describe(&error)
            }
        })
        .collect()
}

/// Names of an object or of its schema that a name is compared with.
const COMPARED_MAX: usize = 100;

/// A name that the schema does not have, and the similar ones that it has.
fn misspelled_name(schema: &Value, error: &ValidationError<'_>) -> Option<(String, Vec<String>)> {
    let (object, _rule) = error.schema_path().as_str().rsplit_once('/')?;
    let known = schema.pointer(object)?.get("properties");
    let known = known.and_then(Value::as_object);
    let known: Vec<&str> = known
        .into_iter()
        .flat_map(|known| known.keys().map(String::as_str))
        .collect();
    if let ValidationErrorKind::AdditionalProperties { unexpected } = error.kind() {
        let mut unexpected = unexpected.iter().take(ERRORS_MAX);
        return unexpected.find_map(|name| {
            let near = nearest(name, known.iter().copied().take(COMPARED_MAX));
            (!near.is_empty()).then(|| (name.clone(), near))
        });
    }
    if let ValidationErrorKind::Required { property } = error.kind() {
        let missing = property.as_str()?;
        let given = error.instance().as_object()?.keys().map(String::as_str);
        let others = given.filter(|name| !known.contains(name));
        let near = nearest(missing, others.take(COMPARED_MAX));
        return Some((near.into_iter().next()?, vec![missing.to_owned()]));
    }
    None
}

/// Rules about the names of an object, which hold whatever its values are.
const NAME_RULES: [&str; 3] = ["/required", "/additionalProperties", "/type"];

/// Rules in them may not apply, depending on values that are not known.
const CONDITIONS: [&str; 6] = ["/if/", "/then/", "/else/", "/anyOf/", "/oneOf/", "/not/"];

fn has_text(value: &Value, is_it: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => is_it(text),
        Value::Array(items) => items.iter().any(|item| has_text(item, is_it)),
        Value::Object(fields) => fields.values().any(|field| has_text(field, is_it)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn describe(error: &ValidationError<'_>) -> FieldError {
    let text: String = error.to_string().chars().take(ERROR_CHARS_MAX).collect();
    FieldError::at(error.instance_path().as_str(), text)
}

/// The errors as one text.
#[must_use]
pub fn join_errors(errors: &[FieldError]) -> String {
    let texts = errors.iter().map(|error| match error.pointer.as_deref() {
        None | Some("") => error.message.clone(),
        Some(pointer) => format!("`{pointer}`: {}", error.message),
    });
    texts.collect::<Vec<_>>().join("; ")
}

fn compile(schema: &Value) -> Result<Validator, String> {
    let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES_MAX);
    let options = jsonschema::options().with_pattern_options(patterns);
    options.build(schema).map_err(|error| {
        let text: String = error.to_string().chars().take(ERROR_CHARS_MAX).collect();
        format!("the schema is not valid: {text}")
    })
}

fn reference_in(schema: &Value) -> Option<&'static str> {
    match schema {
        Value::Object(fields) => {
            let own = REFERENCES
                .into_iter()
                .find(|name| fields.contains_key(*name));
            own.or_else(|| fields.values().find_map(reference_in))
        }
        Value::Array(items) => items.iter().find_map(reference_in),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Gate 1: a misspelled name of an argument is told with the name that was perhaps meant.
    #[test]
    fn a_misspelled_argument_has_its_nearest_name() {
        let strict = json!({ "properties": { "customer": {}, "in": {
            "properties": { "amount": {} }, "additionalProperties": false,
        } }, "additionalProperties": false });
        let open = json!({ "properties": { "customer": {} }, "required": ["customer"] });
        for (schema, args, text, near) in [
            (&strict, json!({ "custmer": 1 }), "custmer", "customer"),
            (
                &strict,
                json!({ "in": { "amuont": 1 } }),
                "amuont",
                "amount",
            ),
            (&open, json!({ "custmer": 1 }), "custmer", "customer"),
        ] {
            let errors = literal_errors(schema, &args, &|_| false);
            assert_eq!(errors.len(), 1, "{errors:?}");
            assert_eq!(
                (errors[0].text.as_str(), &errors[0].nearest[..]),
                (text, &[near.to_owned()][..])
            );
        }
        for (schema, args) in [(&strict, json!({ "zip": 1 })), (&open, json!({ "zip": 1 }))] {
            let errors = literal_errors(schema, &args, &|_| false);
            assert!(errors[0].nearest.is_empty() && errors[0].text.is_empty());
        }
    }

    /// Gate: only errors that no value of a placeholder mends are warnings.
    #[test]
    fn placeholders_are_unknown_values() {
        let schema = json!({
            "type": "object",
            "properties": { "n": { "type": "integer" }, "mode": { "enum": ["a", "b"] } },
            "required": ["n"],
            "additionalProperties": false,
        });
        let is_unknown = |text: &str| text.starts_with('$');
        for (args, count) in [
            (json!({ "n": "$input.n", "mode": "$input.m" }), 0),
            (json!({ "n": "five" }), 1),
            (json!({ "mode": "$input.m" }), 1),
            (json!({ "n": "$input.n", "x": "$input.x" }), 1),
            (json!({ "n": 1, "mode": "c" }), 1),
        ] {
            let errors = literal_errors(&schema, &args, &is_unknown);
            assert_eq!(errors.len(), count, "{args}: {errors:?}");
        }
    }

    /// The rule applies only if the unknown value is `a`.
    #[test]
    fn rules_under_a_condition_are_no_certain_errors() {
        let schema = json!({
            "properties": { "mode": { "enum": ["a", "b"] } },
            "if": { "properties": { "mode": { "const": "a" } } },
            "then": { "properties": { "n": { "type": "string" } } },
            "else": { "properties": { "n": { "type": "null" } } },
        });
        let is_unknown = |text: &str| text.starts_with('$');
        let args = json!({ "mode": "$input.m", "n": 5 });
        assert_eq!(literal_errors(&schema, &args, &is_unknown), []);
    }

    fn refund() -> Value {
        json!({
            "type": "object",
            "properties": { "order": { "type": "string" }, "amount": { "type": "number", "maximum": 500 } },
            "required": ["order"],
            "additionalProperties": false,
        })
    }

    #[test]
    fn errors_have_pointers() {
        assert_eq!(schema_error(&refund()), None);
        assert_eq!(
            value_errors(&refund(), &json!({ "order": "A-1", "amount": 5 })),
            []
        );
        let errors = value_errors(&refund(), &json!({ "amount": 900, "to": "me" }));
        let pointers: Vec<_> = errors
            .iter()
            .filter_map(|one| one.pointer.as_deref())
            .collect();
        assert!(pointers.contains(&"/amount"), "{errors:?}");
        assert_eq!(errors.len(), 3, "{errors:?}");
    }

    #[test]
    fn schemas_that_could_stop_everybody_are_refused() {
        let long = json!({ "description": "x".repeat(SCHEMA_BYTES_MAX) });
        for (schema, expected) in [
            (json!([]), "expected a JSON Schema"),
            (json!({ "type": "objekt" }), "not valid"),
            (json!({ "$ref": "#" }), "`$ref`"),
            (json!({ "items": { "$dynamicRef": "#a" } }), "`$dynamicRef`"),
            (json!({ "$ref": "https://x.example/schema" }), "`$ref`"),
            (json!({ "pattern": "(a+)+\\1" }), "not valid"),
            (json!({ "pattern": "\\w{2000}" }), "not valid"),
            (long, "at most 16384"),
        ] {
            let message = schema_error(&schema).expect("an error");
            assert!(message.contains(expected), "{schema}: {message}");
        }
    }

    /// A small schema and value with ninety million errors: one is reported.
    #[test]
    fn errors_take_bounded_memory() {
        let schema = json!({ "items": { "allOf": vec![json!({ "type": "null" }); 900] } });
        assert_eq!(schema_error(&schema), None);
        let value = json!(vec![1; 100_000]);
        assert_eq!(value_errors(&schema, &value).len(), 1);
        assert_eq!(literal_errors(&schema, &value, &|_| false).len(), 1);
    }

    /// A pattern that takes a backtracking matcher for ever.
    #[test]
    fn patterns_take_linear_time() {
        let schema = json!({ "pattern": "^(a+)+$" });
        assert_eq!(schema_error(&schema), None);
        let text = format!("{}b", "a".repeat(50_000));
        let errors = value_errors(&schema, &json!(text));
        assert_eq!(errors.len(), 1);
        assert!(errors[0].message.chars().count() <= ERROR_CHARS_MAX);
    }
}
