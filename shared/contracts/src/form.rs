//! Forms: the flat subset of JSON Schema that MCP elicitation uses, the one form language for REST,
//! pages, command line and chat. A schema is read into a [`Form`], and an answer is checked against it.

mod field;
mod text;

#[cfg(test)]
mod tests;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::problem::FieldError;

pub use field::{Choice, Field, FieldKind, Format};
pub use text::{plain, plain_value, words};

pub const FIELDS_MAX: usize = 50;

/// Largest schema, in bytes of JSON.
pub const SCHEMA_BYTES_MAX: usize = 32 * 1024;

/// Largest answer, in bytes of JSON.
pub const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// Longest part of an invalid answer that its sender is shown, in characters.
const SHOWN_CHARS_MAX: usize = 200;

/// A form that people fill in.
#[derive(Debug, Clone, PartialEq)]
pub struct Form {
    pub title: Option<String>,
    pub description: Option<String>,
    /// In the order of the schema's text.
    pub fields: Vec<Field>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Schema {
    r#type: String,
    title: Option<String>,
    description: Option<String>,
    properties: Map<String, Value>,
    #[serde(default)]
    required: Vec<String>,
    /// Taken because writers of schemas write it; a field that is not described is refused anyway.
    additional_properties: Option<bool>,
    #[serde(default, rename = "$schema")]
    _dialect: Option<String>,
}

impl Form {
    /// Reads a schema.
    ///
    /// # Errors
    /// Everything that is wrong with it, with JSON pointers into the schema.
    pub fn parse(schema: &Value) -> Result<Self, Vec<FieldError>> {
        let bytes = schema.to_string().len();
        if bytes > SCHEMA_BYTES_MAX {
            let message = format!("a schema has at most {SCHEMA_BYTES_MAX} bytes as JSON");
            return Err(vec![FieldError::at("", message)]);
        }
        if let Some(name) = field::secret_marker(schema) {
            let message = format!("`{name}`: {}", field::NO_SECRETS);
            return Err(vec![FieldError::at("", message)]);
        }
        let schema = Schema::deserialize(schema).map_err(|error| {
            let message = format!("not a flat form schema: {error}");
            vec![FieldError::at("", message)]
        })?;
        let mut errors = schema.errors();
        let mut fields = Vec::with_capacity(schema.properties.len());
        for (name, property) in &schema.properties {
            let required = schema.required.contains(name);
            match Field::parse(name, property, required) {
                Ok(field) => fields.push(field),
                Err(message) => {
                    errors.push(FieldError::at(
                        &format!("/properties/{}", escaped(name)),
                        message,
                    ));
                }
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Self {
            title: schema.title,
            description: schema.description,
            fields,
        })
    }

    /// The errors of an answer. Pointers are into the answer.
    #[must_use]
    pub fn check(&self, answer: &Value) -> Vec<FieldError> {
        let Some(given) = answer.as_object() else {
            return vec![FieldError::at(
                "",
                "an object with the form's fields is expected",
            )];
        };
        let mut errors = Vec::new();
        for field in &self.fields {
            let pointer = format!("/{}", escaped(&field.name));
            match given.get(&field.name) {
                None | Some(Value::Null) if field.required => {
                    errors.push(FieldError::at(&pointer, "this is required"));
                }
                None | Some(Value::Null) => {}
                Some(value) => {
                    let error = field.kind.error_of(value);
                    errors.extend(error.map(|message| FieldError::at(&pointer, message)));
                }
            }
        }
        let is_known = |name: &str| self.fields.iter().any(|field| field.name == name);
        for name in given.keys().filter(|name| !is_known(name)) {
            let names = self.fields.iter().map(|field| field.name.clone());
            errors.push(FieldError {
                nearest: names.collect(),
                ..FieldError::at(&format!("/{}", escaped(name)), "the form has no such field")
            });
        }
        errors
    }
}

impl Schema {
    fn errors(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if self.r#type != "object" {
            errors.push(FieldError::at("/type", "a form is of type `object`"));
        }
        if self.additional_properties == Some(true) {
            let message = "a form has no fields that it does not describe";
            errors.push(FieldError::at("/additionalProperties", message));
        }
        if self.properties.is_empty() || self.properties.len() > FIELDS_MAX {
            let message = format!("a form has 1 to {FIELDS_MAX} fields");
            errors.push(FieldError::at("/properties", message));
        }
        for (place, name) in self.required.iter().enumerate() {
            if !self.properties.contains_key(name) {
                let pointer = format!("/required/{place}");
                errors.push(FieldError::at(&pointer, format!("unknown field `{name}`")));
            }
        }
        errors
    }
}

/// Everything that is wrong with an answer to a question with these options, or with this form. The
/// pointers are into the answer.
#[must_use]
pub fn answer_errors(answer: &Value, options: &[String], form: Option<&Form>) -> Vec<FieldError> {
    let text = answer.to_string();
    if text.len() > ANSWER_BYTES_MAX {
        let message = format!("an answer has at most {ANSWER_BYTES_MAX} bytes as JSON");
        return vec![FieldError {
            nearest: options.to_vec(),
            ..FieldError::at("", message)
        }];
    }
    if let Some(form) = form {
        return form.check(answer);
    }
    let is_option = |text: &str| options.iter().any(|option| option == text);
    if options.is_empty() || answer.as_str().is_some_and(is_option) {
        return Vec::new();
    }
    let message = format!("answer with one of: {}", options.join(", "));
    vec![FieldError {
        text: text.chars().take(SHOWN_CHARS_MAX).collect(),
        nearest: options.to_vec(),
        ..FieldError::at("", message)
    }]
}

/// A name within a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
