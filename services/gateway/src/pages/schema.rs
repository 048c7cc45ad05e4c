//! Forms as fields of a page, and the filled-in fields as an answer. The handoff service validates the answer.

use holdpoint_contracts::form::{Choice, Field, FieldKind, Form, Format};
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::sanitize::{clean, humanize, one_line};
use super::session::Fields;

/// Prefix of the names of a form's fields.
const PREFIX: &str = "answer.";
/// Most choices that are shown as radio buttons; more choices are a list.
const RADIOS_MAX: usize = 4;
/// A text that may be longer, in characters, gets several lines.
const LINE_MAX: usize = 200;
/// Most characters of a label.
const LABEL_MAX: usize = 200;

/// A form that is shown as fields.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FormSchema {
    fields: Vec<Field>,
    /// The answer is the value of the only field instead of an object.
    is_single: bool,
}

/// A field and why its value is not valid.
pub(super) type InvalidField = (String, String);

impl FormSchema {
    /// Reads a schema. `None` if it is not a form, so that it is answered as JSON.
    pub(super) fn read(schema: &Value) -> Option<Self> {
        let is_single = schema.get("type").and_then(Value::as_str) != Some("object");
        let single = || json!({ "type": "object", "properties": { "value": schema }, "required": ["value"] });
        let form = if is_single {
            Form::parse(&single())
        } else {
            Form::parse(schema)
        };
        let fields = form.ok()?.fields;
        Some(Self { fields, is_single })
    }

    /// The fields with the values and errors of the last attempt.
    pub(super) fn inputs(&self, id: &str, before: &Fields, errors: &[InvalidField]) -> Markup {
        html! {
            @for field in &self.fields {
                @let error = errors.iter().find(|(name, _)| *name == field.name);
                (input(field, id, before, error.map(|(_, why)| why.as_str())))
            }
        }
    }

    /// The filled-in values with the types of the form.
    pub(super) fn answer(&self, filled: &Fields) -> Result<Value, Vec<InvalidField>> {
        let (mut answer, mut errors) = (Map::new(), Vec::new());
        for field in &self.fields {
            let text = filled.get(&key(field)).unwrap_or_default();
            match value_of(field, text) {
                Ok(Some(value)) => {
                    answer.insert(field.name.clone(), value);
                }
                Ok(None) if field.required => {
                    errors.push((field.name.clone(), "this is required".to_owned()));
                }
                Ok(None) => {}
                Err(why) => errors.push((field.name.clone(), why)),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let single = self.is_single.then(|| answer.remove("value")).flatten();
        Ok(single.unwrap_or(Value::Object(answer)))
    }
}

fn key(field: &Field) -> String {
    format!("{PREFIX}{}", field.name)
}

fn value_of(field: &Field, text: &str) -> Result<Option<Value>, String> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    match &field.kind {
        FieldKind::Text { .. } | FieldKind::Choice(_) => {
            Ok(Some(text.replace("\r\n", "\n").into()))
        }
        FieldKind::Boolean => Ok(Some((text == "true").into())),
        FieldKind::Number { whole: true, .. } => {
            let number: Result<i64, _> = text.trim().parse();
            let number = number.map_err(|_invalid| "expected a whole number".to_owned())?;
            Ok(Some(number.into()))
        }
        FieldKind::Number { whole: false, .. } => {
            let number: Result<Value, _> = serde_json::from_str(text.trim());
            let number = number.ok().filter(Value::is_number);
            let number = number.ok_or_else(|| "expected a number, such as 12.5".to_owned());
            Ok(Some(number?))
        }
    }
}

fn input(field: &Field, id: &str, before: &Fields, error: Option<&str>) -> Markup {
    let name = key(field);
    let slug = field
        .name
        .replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let id = format!("{id}-{slug}");
    let default = field.default.as_ref();
    let default = default.map(|value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    });
    let value = before.get(&name).map(str::to_owned).or(default);
    let title = field.title.as_deref();
    let title = title.map_or_else(|| humanize(&field.name), |title| one_line(title, LABEL_MAX));
    let hint = field.description.as_deref().map(clean);
    let about = (error.is_some() || hint.is_some()).then(|| format!("{id}-about"));
    let label = html! { (title) @if !field.required { span.muted { " (optional)" } } };
    let help = html! {
        @if about.is_some() {
            p.hint id=[about.as_ref()] {
                @if let Some(error) = error { strong.error { (one_line(error, 300)) } " " }
                @if let Some(hint) = &hint { (hint) }
            }
        }
    };
    let control = Control {
        field,
        id,
        name,
        value: value.unwrap_or_default(),
        about,
    };
    let radios = match &field.kind {
        FieldKind::Choice(all) if all.len() <= RADIOS_MAX => Some(all.clone()),
        FieldKind::Boolean => Some(vec![choice("true", "Yes"), choice("false", "No")]),
        FieldKind::Choice(_) | FieldKind::Text { .. } | FieldKind::Number { .. } => None,
    };
    html! {
        @if let Some(all) = &radios {
            fieldset.field { legend { (label) } (help) (control.radios(all)) }
        } @else {
            div.field { label for=(control.id) { (label) } (help) (control.input()) }
        }
    }
}

fn choice(value: &str, label: &str) -> Choice {
    Choice {
        value: value.to_owned(),
        label: label.to_owned(),
    }
}

/// A field with the attributes of its control.
struct Control<'a> {
    field: &'a Field,
    id: String,
    name: String,
    value: String,
    /// The id of the text that describes the field.
    about: Option<String>,
}

impl Control<'_> {
    fn radios(&self, all: &[Choice]) -> Markup {
        let about = self.about.as_ref();
        html! {
            div.choices {
                @for Choice { value, label } in all {
                    label.choice {
                        input type="radio" name=(self.name) value=(value) required[self.field.required]
                            checked[*value == self.value] aria-describedby=[about];
                        " " (one_line(label, LABEL_MAX))
                    }
                }
            }
        }
    }

    fn input(&self) -> Markup {
        let (required, about) = (self.field.required, self.about.as_ref());
        html! {
            @match &self.field.kind {
                FieldKind::Choice(all) => {
                    select id=(self.id) name=(self.name) required[required] aria-describedby=[about] {
                        option value="" { "Choose…" }
                        @for Choice { value, label } in all {
                            option value=(value) selected[*value == self.value] { (one_line(label, LABEL_MAX)) }
                        }
                    }
                }
                FieldKind::Text { format: None, min, max } if max.is_some_and(|max| max > LINE_MAX) => {
                    textarea id=(self.id) name=(self.name) rows="4" required[required] minlength=[min]
                        maxlength=[max] aria-describedby=[about] { (self.value) }
                }
                FieldKind::Text { format, min, max } => {
                    input id=(self.id) name=(self.name) type=(input_type(*format)) value=(self.value)
                        required[required] minlength=[min] maxlength=[max] aria-describedby=[about];
                }
                FieldKind::Number { whole, min, max } => {
                    input id=(self.id) name=(self.name) type="number" value=(self.value) required[required]
                        step=(if *whole { "1" } else { "any" }) min=[min] max=[max]
                        inputmode=(if *whole { "numeric" } else { "decimal" }) aria-describedby=[about];
                }
                FieldKind::Boolean => {}
            }
        }
    }
}

const fn input_type(format: Option<Format>) -> &'static str {
    match format {
        Some(Format::Email) => "email",
        Some(Format::Uri) => "url",
        Some(Format::Date) => "date",
        Some(Format::DateTime) | None => "text",
    }
}
