//! One field of a form: its kind, and what may stand in it.

use chrono::{DateTime, NaiveDate};
use serde::Deserialize;
use serde_json::Value;

/// Longest name of a field, in bytes.
const NAME_BYTES_MAX: usize = 100;

const CHOICES_MAX: usize = 200;

/// Why a form does not ask for a secret, and what does.
pub(super) const NO_SECRETS: &str = "answers are stored and shown, so a form asks for no secret; ask with \
    `link: { url, label }` instead, where the person enters it at its owner";

/// Other schema languages mark secrets so.
const SECRET_MARKERS: [&str; 6] = [
    "writeOnly",
    "secret",
    "sensitive",
    "x-secret",
    "x-sensitive",
    "password",
];

/// How a schema says that it asks for a secret, if it does.
pub(super) fn secret_marker(schema: &Value) -> Option<&'static str> {
    let says = |name: &&&str| schema.get(**name) == Some(&Value::Bool(true));
    if let Some(name) = SECRET_MARKERS.iter().find(says) {
        return Some(name);
    }
    let format = schema.get("format").and_then(Value::as_str)?;
    let is_secret = ["password", "secret"].contains(&format.to_ascii_lowercase().as_str());
    is_secret.then_some("format: password")
}

/// One field of a form.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// The key in the answer.
    pub name: String,
    /// For people; none: the name.
    pub title: Option<String>,
    pub description: Option<String>,
    /// Whether an answer must contain it.
    pub required: bool,
    /// The initial value.
    pub default: Option<Value>,
    /// The type of the value.
    pub kind: FieldKind,
}

/// The values that a field allows.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldKind {
    Text {
        format: Option<Format>,
        /// Shortest, in characters.
        min: Option<usize>,
        /// Longest, in characters.
        max: Option<usize>,
    },
    /// One of some texts.
    Choice(Vec<Choice>),
    Number {
        /// Whether it has no fraction.
        whole: bool,
        min: Option<f64>,
        max: Option<f64>,
    },
    Boolean,
}

/// One of the texts of a choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// In the answer.
    pub value: String,
    /// For people.
    pub label: String,
}

/// The shape of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// `name@host`.
    Email,
    /// With a scheme: `https://…`.
    Uri,
    /// `2026-03-02`.
    Date,
    /// RFC 3339.
    DateTime,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Property {
    r#type: Type,
    title: Option<String>,
    description: Option<String>,
    default: Option<Value>,
    r#enum: Option<Vec<Value>>,
    enum_names: Option<Vec<String>>,
    format: Option<Format>,
    min_length: Option<usize>,
    max_length: Option<usize>,
    minimum: Option<f64>,
    maximum: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Type {
    String,
    Number,
    Integer,
    Boolean,
}

impl Field {
    pub(super) fn parse(name: &str, property: &Value, required: bool) -> Result<Self, String> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
            return Err(format!("a field's name has 1 to {NAME_BYTES_MAX} bytes"));
        }
        if let Some(marker) = secret_marker(property) {
            return Err(format!("`{marker}`: {NO_SECRETS}"));
        }
        let property = Property::deserialize(property)
            .map_err(|error| format!("a field is a string, number, integer or boolean: {error}"))?;
        let kind = property.kind()?;
        if let Some(error) = property.default.as_ref().and_then(|it| kind.error_of(it)) {
            return Err(format!("invalid default: {error}"));
        }
        Ok(Self {
            name: name.to_owned(),
            title: property.title,
            description: property.description,
            required,
            default: property.default,
            kind,
        })
    }
}

impl Property {
    fn kind(&self) -> Result<FieldKind, String> {
        let of_text =
            self.format.is_some() || self.min_length.is_some() || self.max_length.is_some();
        let of_number = self.minimum.is_some() || self.maximum.is_some();
        let is_text = self.r#type == Type::String;
        let is_number = matches!(self.r#type, Type::Number | Type::Integer);
        if (of_text && !is_text) || (of_number && !is_number) {
            return Err("lengths and formats are of strings, bounds of numbers".to_owned());
        }
        if self.min_length > self.max_length && self.max_length.is_some()
            || self.minimum > self.maximum && self.maximum.is_some()
        {
            return Err("the least is more than the most".to_owned());
        }
        match (self.r#type, &self.r#enum) {
            (Type::String, Some(values)) if of_text => Err(format!(
                "one of {} values has no format or length",
                values.len()
            )),
            (Type::String, Some(values)) => self.choices(values).map(FieldKind::Choice),
            (Type::Number | Type::Integer | Type::Boolean, Some(_)) => {
                Err("only strings have an `enum`".to_owned())
            }
            (_, None) if self.enum_names.is_some() => {
                Err("`enumNames` goes with `enum`".to_owned())
            }
            (Type::String, None) => Ok(FieldKind::Text {
                format: self.format,
                min: self.min_length,
                max: self.max_length,
            }),
            (Type::Number | Type::Integer, None) => Ok(FieldKind::Number {
                whole: self.r#type == Type::Integer,
                min: self.minimum,
                max: self.maximum,
            }),
            (Type::Boolean, None) => Ok(FieldKind::Boolean),
        }
    }

    fn choices(&self, values: &[Value]) -> Result<Vec<Choice>, String> {
        if values.is_empty() || values.len() > CHOICES_MAX {
            return Err(format!("an `enum` has 1 to {CHOICES_MAX} values"));
        }
        let names = self.enum_names.as_deref().unwrap_or_default();
        if self.enum_names.is_some() && names.len() != values.len() {
            return Err("`enumNames` has a name for each value".to_owned());
        }
        let choices = values.iter().enumerate().map(|(place, value)| {
            let value = super::text::word(value)?;
            // Answers lose control characters, so that such a choice could never be answered.
            if super::plain(&value) != value {
                return Err("a value of an `enum` has no control characters".to_owned());
            }
            let label = names.get(place).cloned().unwrap_or_else(|| value.clone());
            Ok(Choice { value, label })
        });
        choices.collect()
    }
}

impl FieldKind {
    /// Why a value is invalid; none: it is valid.
    pub(super) fn error_of(&self, value: &Value) -> Option<String> {
        match (self, value) {
            (Self::Text { format, min, max }, Value::String(text)) => {
                text_error(text, *format, *min, *max)
            }
            (Self::Text { .. }, _) => Some("a text is expected".to_owned()),
            (Self::Choice(choices), value) => choice_error(choices, value),
            (Self::Number { whole, min, max }, Value::Number(number)) => {
                number_error(number, *whole, (*min, *max))
            }
            (Self::Number { .. }, _) => Some("a number is expected".to_owned()),
            (Self::Boolean, Value::Bool(_)) => None,
            (Self::Boolean, _) => Some("true or false is expected".to_owned()),
        }
    }
}

fn choice_error(choices: &[Choice], value: &Value) -> Option<String> {
    let is_one = |text: &str| choices.iter().any(|choice| choice.value == text);
    if value.as_str().is_some_and(is_one) {
        return None;
    }
    let words: Vec<_> = choices.iter().map(|choice| choice.value.as_str()).collect();
    Some(format!("one of: {}", words.join(", ")))
}

fn text_error(
    text: &str,
    format: Option<Format>,
    min: Option<usize>,
    max: Option<usize>,
) -> Option<String> {
    let length = text.chars().count();
    if let Some(min) = min.filter(|min| length < *min) {
        return Some(format!("at least {min} characters"));
    }
    if let Some(max) = max.filter(|max| length > *max) {
        return Some(format!("at most {max} characters"));
    }
    match format? {
        Format::Email => (!is_email(text)).then(|| "a mail address: name@host".to_owned()),
        Format::Uri => (!is_uri(text)).then(|| "an address with a scheme: https://…".to_owned()),
        Format::Date => NaiveDate::parse_from_str(text, "%Y-%m-%d")
            .is_err()
            .then(|| "a date: 2026-03-02".to_owned()),
        Format::DateTime => DateTime::parse_from_rfc3339(text)
            .is_err()
            .then(|| "an instant: 2026-03-02T09:00:00Z".to_owned()),
    }
}

fn is_email(text: &str) -> bool {
    let is_clean = !text.chars().any(|c| c.is_control() || c.is_whitespace());
    is_clean
        && text
            .split_once('@')
            .is_some_and(|(name, host)| !name.is_empty() && !host.is_empty() && !host.contains('@'))
}

fn is_uri(text: &str) -> bool {
    let is_clean = !text.chars().any(|c| c.is_control() || c.is_whitespace());
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    is_clean
        && text
            .split_once(':')
            .is_some_and(|(scheme, rest)| is_scheme(scheme) && !rest.is_empty())
}

fn number_error(
    number: &serde_json::Number,
    whole: bool,
    (min, max): (Option<f64>, Option<f64>),
) -> Option<String> {
    let value = number.as_f64()?;
    if whole && value.fract() != 0.0 {
        return Some("a whole number is expected".to_owned());
    }
    if let Some(min) = min.filter(|min| value < *min) {
        return Some(format!("at least {min}"));
    }
    max.filter(|max| value > *max)
        .map(|max| format!("at most {max}"))
}
