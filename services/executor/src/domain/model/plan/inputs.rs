//! The inputs that a run of an agent needs at its start (S2-R12).

use holdpoint_contracts::form::Form;
use holdpoint_contracts::problem::FieldError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inputs {
    /// The flat form: `type: object`, `properties`, `required`.
    pub schema: Value,
    /// Whether missing inputs are asked for. Otherwise such a run is refused (S2-R16).
    #[serde(default = "yes")]
    pub ask: bool,
}

const fn yes() -> bool {
    true
}

impl Inputs {
    /// The missing required fields, in the order of the form.
    #[must_use]
    pub fn missing(&self, given: &Value) -> Vec<String> {
        let required = self.schema.get("required").and_then(Value::as_array);
        let is_required = |name: &str| {
            let mut names = required.into_iter().flatten().filter_map(Value::as_str);
            names.any(|required| required == name)
        };
        let fields = self.schema.get("properties").and_then(Value::as_object);
        let names = fields.into_iter().flat_map(Map::keys);
        names
            .filter(|name| is_required(name))
            .filter(|name| given.get(name.as_str()).is_none_or(Value::is_null))
            .cloned()
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

    /// The errors of the given inputs, some of which may be missing. Pointers are into the inputs. Fields
    /// that the form does not name belong to the author and are not checked.
    #[must_use]
    pub fn errors(&self, given: &Value) -> Vec<FieldError> {
        // A plan is only made with a form that can be read.
        let Ok(mut form) = Form::parse(&self.schema) else {
            return Vec::new();
        };
        for field in &mut form.fields {
            field.required = false;
        }
        let fields = match given {
            Value::Null => return Vec::new(),
            Value::Object(fields) => fields,
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return form.check(given);
            }
        };
        let is_of_form = |name: &str| form.fields.iter().any(|field| field.name == name);
        let of_form = fields.iter().filter(|(name, _)| is_of_form(name));
        let of_form: Map<String, Value> = of_form
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        form.check(&Value::Object(of_form))
    }
}
