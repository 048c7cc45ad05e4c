//! What a run of an agent must be told at its start (S2-R12).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The inputs of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inputs {
    /// The flat form: `type: object`, `properties`, `required`.
    pub schema: Value,
    /// Whether what is missing is asked for; else such a run is refused (S2-R16).
    #[serde(default = "yes")]
    pub ask: bool,
}

const fn yes() -> bool {
    true
}

impl Inputs {
    /// The required fields that are not there, in the order of the form.
    #[must_use]
    pub fn missing(&self, given: &Value) -> Vec<String> {
        let required = self.schema.get("required").and_then(Value::as_array);
        let names = required.into_iter().flatten().filter_map(Value::as_str);
        names
            .filter(|name| given.get(name).is_none_or(Value::is_null))
            .map(str::to_owned)
            .collect()
    }

    /// The form with these fields only, all of them required.
    #[must_use]
    pub fn form(&self, missing: &[String]) -> Value {
        let all = self.schema.get("properties").and_then(Value::as_object);
        let fields: Map<String, Value> = missing
            .iter()
            .filter_map(|name| Some((name.clone(), all?.get(name)?.clone())))
            .collect();
        json!({ "type": "object", "properties": fields, "required": missing })
    }

    /// What is wrong with answers: field and what it should be.
    #[must_use]
    pub fn faults(&self, answers: &Map<String, Value>) -> Vec<(String, String)> {
        let all = self.schema.get("properties").and_then(Value::as_object);
        let fault = |name: &String, said: String| (name.clone(), said);
        answers
            .iter()
            .filter_map(|(name, value)| {
                let Some(field) = all.and_then(|all| all.get(name)) else {
                    return Some(fault(name, "there is no such input".to_owned()));
                };
                let kind = field
                    .get("type")
                    .and_then(Value::as_str)
                    .unwrap_or("string");
                let fits = match kind {
                    "string" => value.is_string(),
                    "number" => value.is_number(),
                    "integer" => value.is_i64() || value.is_u64(),
                    _ => value.is_boolean(),
                };
                if !fits {
                    return Some(fault(name, format!("it is a {kind}")));
                }
                let words = field.get("enum").and_then(Value::as_array)?;
                let is_none = !words.contains(value);
                is_none.then(|| fault(name, "it is none of the words of the form".to_owned()))
            })
            .collect()
    }
}
