//! YAML or JSON text to a JSON value, within limits.
//!
//! Owns what keeps a small text from becoming a large value (YAML aliases) and where a syntax
//! error is. It must never know what an agent is, except that it is an object.

use std::cell::Cell;
use std::fmt;

use holdpoint_contracts::problem::FieldError;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::diagnostics::{MAX_TEXT, shown};
use crate::domain::text::cut;

/// Most values in one text, counted with every alias followed.
const MAX_VALUES: usize = 100_000;
/// Most bytes of texts and keys, counted with every alias followed: a few aliases of a long text would
/// otherwise take all memory.
const MAX_BYTES: usize = 2 * MAX_TEXT;
/// Deepest nesting of objects and lists.
const MAX_NESTING: usize = 32;
/// Most anchors, and most aliases, of one text.
const MAX_ALIASES: usize = 1_000;

pub(super) fn agent(text: &str) -> Result<Map<String, Value>, Box<FieldError>> {
    if text.len() > MAX_TEXT {
        let said = format!(
            "An agent has at most {MAX_TEXT} bytes; this one has {}.",
            text.len()
        );
        return Err(text_error(None, String::new(), said));
    }
    match value(text)? {
        Value::Object(fields) => Ok(fields),
        other => Err(text_error(
            None,
            shown(&other),
            "An agent is an object with `agent: NAME`, and `steps` or `instructions`.".to_owned(),
        )),
    }
}

/// Reads any value, within the limits of an agent.
pub(crate) fn value(text: &str) -> Result<Value, Box<FieldError>> {
    let json = is_json(text).then(|| from_json(text));
    match json {
        Some(Ok(value)) => return Ok(value),
        // Flow YAML starts with a brace too; it has no quote after it.
        Some(Err(error))
            if text
                .trim_start()
                .trim_start_matches('{')
                .trim_start()
                .starts_with('"') =>
        {
            return Err(error);
        }
        Some(Err(_)) | None => {}
    }
    from_yaml(text)
}

fn from_yaml(text: &str) -> Result<Value, Box<FieldError>> {
    let used = Used::default();
    let seed = Seed {
        used: &used,
        depth: 0,
    };
    serde_saphyr::with_deserializer_from_str_with_options(text, yaml_options(), |reader| {
        seed.deserialize(reader)
    })
    .map_err(|error| {
        let line = error.location().map(|location| location.line());
        let line = line.and_then(|line| usize::try_from(line).ok());
        syntax_error(text, line, "YAML", &yaml_error(&error))
    })
}

/// The reader refuses a text that nests, repeats or refers too much before it has read all of it.
fn yaml_options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_NESTING,
            flow_nesting_limit: MAX_NESTING,
            max_nodes: MAX_VALUES * 2,
            max_events: MAX_VALUES * 4,
            max_aliases: MAX_ALIASES,
            max_anchors: MAX_ALIASES,
            max_merge_keys: 0,
            max_documents: 1,
            max_total_scalar_bytes: MAX_BYTES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_VALUES,
            max_replay_stack_depth: MAX_NESTING,
        },
        merge_keys: serde_saphyr::options::MergeKeyPolicy::Error,
        // `yes` and `0755` are texts, as in YAML 1.2: an author who means a number or a boolean writes one.
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    }
}

/// The first line of what the reader says, without the place, which the error has.
fn yaml_error(error: &serde_saphyr::Error) -> String {
    let said = error.without_snippet().to_string();
    if said.contains("recursion limit") || said.contains("depth") {
        return format!("it is nested deeper than {MAX_NESTING}");
    }
    let said = said.lines().next().unwrap_or_default();
    let said = said.split(" at line ").next().unwrap_or_default();
    cut(said, 200).trim_end_matches('.').to_owned()
}

fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

fn from_json(text: &str) -> Result<Value, Box<FieldError>> {
    let used = Used::default();
    let mut reader = serde_json::Deserializer::from_str(text);
    let seed = Seed {
        used: &used,
        depth: 0,
    };
    let read = seed
        .deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value));
    read.map_err(|error| syntax_error(text, Some(error.line()), "JSON", &error.to_string()))
}

fn syntax_error(text: &str, line: Option<usize>, language: &str, error: &str) -> Box<FieldError> {
    let bit = line
        .and_then(|line| text.lines().nth(line.saturating_sub(1)))
        .unwrap_or_default();
    let bit = shown(&Value::from(bit.trim()));
    let error = error.strip_prefix(".: ").unwrap_or(error);
    text_error(
        line,
        bit,
        format!("The text is not valid {language}: {error}."),
    )
}

fn text_error(line: Option<usize>, text: String, message: String) -> Box<FieldError> {
    Box::new(FieldError {
        line,
        text,
        message,
        ..FieldError::default()
    })
}

#[derive(Debug, Default)]
struct Used {
    values: Cell<usize>,
    bytes: Cell<usize>,
}

/// Builds a value while it counts.
#[derive(Clone, Copy)]
struct Seed<'c> {
    used: &'c Used,
    depth: usize,
}

impl Seed<'_> {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        if self.depth >= MAX_NESTING {
            return Err(E::custom(format_args!(
                "it is nested deeper than {MAX_NESTING}"
            )));
        }
        Ok(Self {
            depth: self.depth + 1,
            ..self
        })
    }

    fn text<E: Error>(self, text: String) -> Result<String, E> {
        let bytes = self.used.bytes.get().saturating_add(text.len());
        self.used.bytes.set(bytes);
        if bytes > MAX_BYTES {
            return Err(E::custom(format_args!(
                "its texts have more than {MAX_BYTES} bytes, aliases followed"
            )));
        }
        Ok(text)
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let values = &self.used.values;
        values.set(values.get() + 1);
        if values.get() > MAX_VALUES {
            return Err(D::Error::custom(format_args!(
                "it has more than {MAX_VALUES} values"
            )));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a plain value without a tag")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    /// How the YAML reader says that there is no document at all.
    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        let number = Number::from_f64(number);
        number
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number must be finite"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.text(text.to_owned()).map(Value::String)
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        self.text(text).map(Value::String)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let seed = self.deeper()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(seed)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let seed = self.deeper()?;
        let mut fields = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let key = self.text(key)?;
            if fields.contains_key(&key) {
                return Err(A::Error::custom(format_args!(
                    "the field `{key}` is there twice"
                )));
            }
            let field = entries.next_value_seed(seed)?;
            fields.insert(key, field);
        }
        Ok(Value::Object(fields))
    }
}
