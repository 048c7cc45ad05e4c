//! Forms: the flat subset of JSON Schema that MCP elicitation uses, as fields of a page, and what
//! was filled in as the JSON that is answered. Whether an answer is one, the request's owner knows.

use maud::{Markup, html};
use serde_json::{Map, Number, Value};

use super::sanitize::{clean, humanize, one_line};
use super::session::Fields;

/// What the names of a form's fields start with.
const PREFIX: &str = "answer.";
/// More fields than this are no form for people.
const FIELDS_MAX: usize = 100;
/// So many choices are shown at a glance; more are a list to open.
const GLANCE_MAX: usize = 4;
/// A text that may be this long gets several lines.
const LINE_MAX: u64 = 200;

/// A form that can be shown as fields.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FormSchema {
    fields: Vec<Field>,
    /// Not an object but this one value.
    is_single: bool,
}

/// One field of a form.
#[derive(Debug, Clone, PartialEq)]
struct Field {
    name: String,
    label: String,
    hint: Option<String>,
    kind: Kind,
    required: bool,
    default: Option<Value>,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Text {
        format: &'static str,
        min: Option<u64>,
        max: Option<u64>,
    },
    Choice(Vec<(String, String)>),
    Number {
        whole: bool,
        min: Option<Number>,
        max: Option<Number>,
    },
    YesNo,
}

/// What cannot be an answer: the field, and why.
pub(super) type FieldFault = (String, String);

impl FormSchema {
    /// Reads a schema; none when it is not flat, and is answered as JSON.
    pub(super) fn read(schema: &Value) -> Option<Self> {
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            let field = Field::read("value", schema, true)?;
            return Some(Self {
                fields: vec![field],
                is_single: true,
            });
        }
        let properties = schema.get("properties")?.as_object()?;
        if properties.len() > FIELDS_MAX {
            return None;
        }
        let required: Vec<_> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        // In the author's order: a form often reads from the top down (D-11).
        let fields = properties
            .iter()
            .map(|(name, property)| Field::read(name, property, required.contains(&name.as_str())))
            .collect::<Option<Vec<_>>>()?;
        Some(Self {
            fields,
            is_single: false,
        })
    }

    /// The fields, with what was filled in before and what was wrong with it.
    pub(super) fn inputs(&self, id: &str, before: &Fields, faults: &[FieldFault]) -> Markup {
        html! {
            @for field in &self.fields {
                @let fault = faults.iter().find(|(name, _)| *name == field.name);
                (field.input(id, before, fault.map(|(_, why)| why.as_str())))
            }
        }
    }

    /// What was filled in, as the types that the schema names.
    pub(super) fn answer(&self, filled: &Fields) -> Result<Value, Vec<FieldFault>> {
        let (mut answer, mut faults) = (Map::new(), Vec::new());
        for field in &self.fields {
            let text = filled.get(&field.key()).unwrap_or_default();
            match field.value(text) {
                Ok(Some(value)) => {
                    answer.insert(field.name.clone(), value);
                }
                Ok(None) if field.required => {
                    faults.push((field.name.clone(), "this is needed".to_owned()));
                }
                Ok(None) => {}
                Err(why) => faults.push((field.name.clone(), why)),
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let single = self.is_single.then(|| answer.remove("value")).flatten();
        Ok(single.unwrap_or(Value::Object(answer)))
    }
}

impl Field {
    fn read(name: &str, schema: &Value, required: bool) -> Option<Self> {
        let text = |key: &str| schema.get(key).and_then(Value::as_str);
        let kind = match text("type")? {
            "string" => match schema.get("enum").and_then(Value::as_array) {
                Some(all) => Kind::Choice(choices(all, schema)?),
                None => Kind::Text {
                    format: match text("format") {
                        Some("email") => "email",
                        Some("uri") => "url",
                        Some("date") => "date",
                        Some(_) | None => "text",
                    },
                    min: schema.get("minLength").and_then(Value::as_u64),
                    max: schema.get("maxLength").and_then(Value::as_u64),
                },
            },
            kind @ ("number" | "integer") => Kind::Number {
                whole: kind == "integer",
                min: schema.get("minimum").and_then(Value::as_number).cloned(),
                max: schema.get("maximum").and_then(Value::as_number).cloned(),
            },
            "boolean" => Kind::YesNo,
            _ => return None,
        };
        Some(Self {
            name: name.to_owned(),
            label: text("title").map_or_else(|| humanize(name), |title| one_line(title, 200)),
            hint: text("description").map(|text| clean(text).into_owned()),
            kind,
            required,
            default: schema.get("default").cloned(),
        })
    }

    fn key(&self) -> String {
        format!("{PREFIX}{}", self.name)
    }

    fn value(&self, text: &str) -> Result<Option<Value>, String> {
        if text.trim().is_empty() {
            return Ok(None);
        }
        match &self.kind {
            Kind::Text { .. } | Kind::Choice(_) => Ok(Some(text.replace("\r\n", "\n").into())),
            Kind::YesNo => Ok(Some((text == "true").into())),
            Kind::Number { whole: true, .. } => {
                let number: Result<i64, _> = text.trim().parse();
                let number = number.map_err(|_no_number| "write a whole number".to_owned())?;
                Ok(Some(number.into()))
            }
            Kind::Number { whole: false, .. } => {
                let number: Result<Value, _> = serde_json::from_str(text.trim());
                let number = number.ok().filter(Value::is_number);
                let number = number.ok_or_else(|| "write a number, such as 12.5".to_owned());
                Ok(Some(number?))
            }
        }
    }

    fn input(&self, id: &str, before: &Fields, fault: Option<&str>) -> Markup {
        let key = self.key();
        let at = format!("{id}-{}", slug(&self.name));
        let default = self.default.as_ref().map(|value| match value {
            Value::String(text) => text.clone(),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => value.to_string(),
        });
        let now = before.get(&key).map(str::to_owned).or(default);
        let now = now.unwrap_or_default();
        let about = (fault.is_some() || self.hint.is_some()).then(|| format!("{at}-about"));
        let about = about.as_deref();
        let label = html! { (self.label) @if !self.required { span.muted { " (optional)" } } };
        let help = html! {
            @if about.is_some() {
                p.hint id=[about] {
                    @if let Some(fault) = fault { strong.error { (one_line(fault, 300)) } " " }
                    @if let Some(hint) = &self.hint { (hint) }
                }
            }
        };
        let parts = Parts {
            field: self,
            key: &key,
            at: &at,
            about,
            now: &now,
        };
        html! {
            @match &self.kind {
                Kind::Choice(all) if all.len() <= GLANCE_MAX => {
                    fieldset.field { legend { (label) } (help) (parts.radios(all)) }
                }
                Kind::YesNo => {
                    @let both = [("true", "Yes"), ("false", "No")].map(|(value, label)| (value.to_owned(), label.to_owned()));
                    fieldset.field { legend { (label) } (help) (parts.radios(&both)) }
                }
                Kind::Choice(_) | Kind::Text { .. } | Kind::Number { .. } => {
                    div.field { label for=(at) { (label) } (help) (parts.control()) }
                }
            }
        }
    }
}

/// What one input of a field is made of.
struct Parts<'a> {
    field: &'a Field,
    key: &'a str,
    at: &'a str,
    about: Option<&'a str>,
    now: &'a str,
}

impl Parts<'_> {
    fn radios(&self, all: &[(String, String)]) -> Markup {
        html! {
            div.choices {
                @for (value, label) in all {
                    label.choice {
                        input type="radio" name=(self.key) value=(value) required[self.field.required]
                            checked[value == self.now] aria-describedby=[self.about];
                        " " (label)
                    }
                }
            }
        }
    }

    fn control(&self) -> Markup {
        let Self {
            field,
            key,
            at,
            about,
            now,
        } = self;
        html! {
            @match &field.kind {
                Kind::Choice(all) => {
                    select id=(at) name=(key) required[field.required] aria-describedby=[*about] {
                        option value="" { "Choose…" }
                        @for (value, label) in all {
                            option value=(value) selected[value == now] { (label) }
                        }
                    }
                }
                Kind::Text { format: "text", min, max } if max.is_some_and(|max| max > LINE_MAX) => {
                    textarea id=(at) name=(key) rows="4" required[field.required] minlength=[min]
                        maxlength=[max] aria-describedby=[*about] { (now) }
                }
                Kind::Text { format, min, max } => {
                    input id=(at) name=(key) type=(format) value=(now) required[field.required]
                        minlength=[min] maxlength=[max] aria-describedby=[*about];
                }
                Kind::Number { whole, min, max } => {
                    input id=(at) name=(key) type="number" value=(now) required[field.required]
                        step=(if *whole { "1" } else { "any" }) min=[min] max=[max]
                        inputmode=(if *whole { "numeric" } else { "decimal" }) aria-describedby=[*about];
                }
                Kind::YesNo => {}
            }
        }
    }
}

/// The choices there are, each with what is shown for it.
fn choices(all: &[Value], schema: &Value) -> Option<Vec<(String, String)>> {
    let names = schema.get("enumNames").and_then(Value::as_array);
    all.iter()
        .enumerate()
        .map(|(at, one)| {
            let value = one.as_str()?;
            let name = names.and_then(|names| names.get(at)?.as_str());
            Some((value.to_owned(), one_line(name.unwrap_or(value), 200)))
        })
        .collect()
}

fn slug(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect()
}
