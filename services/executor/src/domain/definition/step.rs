//! One step as it is written.
//!
//! Owns the kinds of step and their fields. It must never look at other steps: ids, order and
//! expressions are put together afterwards.

use std::time::Duration;

use holdpoint_contracts::duration::{self, MAX_WAIT};
use serde_json::{Map, Value};

use super::diagnostics::{AgentChecker, MAX_STEPS, Place, is_name, plain, shown};
use super::fields;
use crate::domain::expression::Diagnostic;
use crate::domain::model::plan::Action;

/// Shortest wait and claim timeout (S3-R7).
const MIN_WAIT: Duration = Duration::from_secs(1);
/// The kinds of step.
const KINDS: [&str; 4] = ["tool", "wait", "ask", "handoff"];
/// Ids that placeholders use for something else.
const RESERVED: [&str; 4] = ["input", "contact", "run", "item"];

/// A step on its way into the plan; what is wrong with it has been noted.
pub(super) struct Draft {
    pub(super) id: String,
    /// `None`: the step before.
    pub(super) needs: Option<Vec<String>>,
    pub(super) when: Option<String>,
    pub(super) claim_timeout_ms: Option<u64>,
    /// `None` if it was refused.
    pub(super) action: Option<Action>,
}

/// The id of a step that has none of its own: `step-01` for the first.
pub(super) fn default_id(at: usize) -> String {
    format!("step-{:02}", at + 1)
}

impl AgentChecker<'_> {
    /// Reads the step at a position, from 0.
    pub(super) fn draft(&mut self, at: usize, step: &Value) -> Draft {
        let Value::Object(step) = step else {
            let id = default_id(at);
            let said = "A step is an object, such as `tool: send_email` with `args`.";
            self.fault(Place::Step(at, &id, None), plain(&shown(step), said));
            return Draft {
                id,
                needs: None,
                when: None,
                claim_timeout_ms: None,
                action: None,
            };
        };
        let id = self.id(at, step.get("id"));
        for name in step.keys() {
            if self.is_full() {
                break;
            }
            if let Some(complaint) = fields::step_field(name) {
                self.fault(Place::Step(at, &id, Some(name)), complaint);
            }
        }
        let mut one = One {
            review: self,
            at,
            id: &id,
        };
        let needs = one.needs(step.get("needs"));
        let when = one.when(step.get("when"));
        let claim_timeout_ms = step
            .get("claim_timeout")
            .and_then(|value| one.claim_timeout_ms(value));
        let action = one.action(step);
        Draft {
            needs,
            when,
            claim_timeout_ms,
            action,
            id,
        }
    }

    fn id(&mut self, at: usize, value: Option<&Value>) -> String {
        let default = default_id(at);
        let Some(value) = value else { return default };
        let complaint = match value {
            Value::String(id) => match id_complaint(id, at) {
                None => return id.clone(),
                Some(said) => plain(&shown(value), &said),
            },
            _ => plain(&shown(value), "The id of a step is a text."),
        };
        self.fault(Place::Step(at, &default, Some("id")), complaint);
        default
    }
}

fn id_complaint(id: &str, at: usize) -> Option<String> {
    if !is_name(id) {
        return Some("The id of a step has 1 to 100 letters, digits, dots, underscores or hyphens and starts with a letter or digit.".to_owned());
    }
    if RESERVED.contains(&id) {
        return Some(format!(
            "`${id}` means something else in placeholders; use another id."
        ));
    }
    let number = id
        .strip_prefix("step-")
        .and_then(|digits| digits.parse::<usize>().ok());
    let other = number
        .and_then(|number| number.checked_sub(1))
        .filter(|&other| other != at);
    let is_taken = other.is_some_and(|other| other < MAX_STEPS && default_id(other) == id);
    is_taken.then(|| {
        let own = default_id(at);
        format!("`{id}` is the id of another position; here write `{own}`, a name, or nothing.")
    })
}

/// A step while its fields are read.
pub(super) struct One<'r, 't> {
    review: &'r mut AgentChecker<'t>,
    at: usize,
    id: &'r str,
}

impl One<'_, '_> {
    pub(super) fn fault(&mut self, field: &str, complaint: Diagnostic) {
        self.review
            .fault(Place::Step(self.at, self.id, Some(field)), complaint);
    }

    fn needs(&mut self, value: Option<&Value>) -> Option<Vec<String>> {
        let value = value?;
        let names = match value {
            Value::Array(names) => names
                .iter()
                .map(|name| name.as_str().map(str::to_owned))
                .collect(),
            _ => None,
        };
        if names.is_none() {
            let said = "`needs` is a list of step ids; `[]` needs nothing.";
            self.fault("needs", plain(&shown(value), said));
        }
        names
    }

    fn when(&mut self, value: Option<&Value>) -> Option<String> {
        match value? {
            Value::String(text) if text.trim().starts_with("{{") => {
                let said = "A condition is CEL already; write it without `{{ }}`.";
                self.fault("when", plain(&shown(&Value::from(text.as_str())), said));
                None
            }
            Value::String(text) => Some(text.trim().to_owned()),
            Value::Bool(flag) => Some(flag.to_string()),
            other => {
                let said = "`when` is a condition, such as `contact.replied == false`.";
                self.fault("when", plain(&shown(other), said));
                None
            }
        }
    }

    fn claim_timeout_ms(&mut self, value: &Value) -> Option<u64> {
        self.duration_ms("claim_timeout", value)
    }

    fn action(&mut self, step: &Map<String, Value>) -> Option<Action> {
        let mut kinds = KINDS
            .iter()
            .filter_map(|kind| Some((*kind, step.get(*kind)?)));
        let Some((kind, value)) = kinds.next() else {
            // A kind that is still to come has been refused by name already.
            if !step.keys().any(|name| fields::is_later_kind(name)) {
                let said = "A step says what it does: `tool: NAME`, `wait: DURATION`, `ask: …` or `handoff: …`.";
                self.fault("id", plain("", said));
            }
            return None;
        };
        if let Some((other, _)) = kinds.next() {
            let said = format!("A step is either a `{kind}` or a `{other}`; make it two steps.");
            self.fault(other, plain(other, &said));
            return None;
        }
        if kind != "tool" && step.contains_key("args") {
            let said = format!("`args` belongs to a `tool`; a `{kind}` has none.");
            self.fault("args", plain("args", &said));
        }
        match kind {
            "tool" => self.tool(value, step.get("args")),
            "ask" => self.ask(value),
            "handoff" => self.handoff(value),
            _ => {
                let duration_ms = self.wait_ms(value)?;
                Some(Action::Wait { duration_ms })
            }
        }
    }

    fn tool(&mut self, tool: &Value, args: Option<&Value>) -> Option<Action> {
        let args = match args {
            None | Some(Value::Null) => Value::Object(Map::new()),
            Some(Value::Object(fields)) => Value::Object(fields.clone()),
            Some(other) => {
                let said = "`args` is an object with a field for each argument.";
                self.fault("args", plain(&shown(other), said));
                return None;
            }
        };
        match tool {
            Value::String(name) if is_name(name) => Some(Action::Tool {
                tool: name.clone(),
                args,
            }),
            other => {
                let said = "The name of a tool has 1 to 100 letters, digits, dots, underscores or hyphens and starts with a letter or digit.";
                self.fault("tool", plain(&shown(other), said));
                None
            }
        }
    }

    fn wait_ms(&mut self, value: &Value) -> Option<u64> {
        let text = value.as_str().map(str::to_lowercase).unwrap_or_default();
        let later = if text.contains("business day") {
            Some("a wait by business days")
        } else if text.contains("{{") || text.starts_with('$') {
            Some("a wait by placeholder")
        } else if looks_like_date(&text) || value.is_object() {
            Some("a wait until a date")
        } else {
            None
        };
        let Some(later) = later else {
            return self.duration_ms("wait", value);
        };
        let said =
            format!("This release does not have {later} yet; write a duration such as `5 days`.");
        self.fault("wait", plain(&shown(value), &said));
        None
    }

    /// A duration between one second and 90 days (S0-AC8, S3-R7).
    fn duration_ms(&mut self, field: &str, value: &Value) -> Option<u64> {
        let refused = match value {
            Value::String(text) => match duration::parse(text) {
                Ok(duration) if duration.is_zero() => {
                    format!("`{field}` cannot be 0; the shortest is 1 second.")
                }
                Ok(duration) if duration < MIN_WAIT => {
                    format!("`{field}` is at least 1 second.")
                }
                Ok(duration) if duration > MAX_WAIT => {
                    format!("`{field}` is at most 90 days.")
                }
                Ok(duration) => return u64::try_from(duration.as_millis()).ok(),
                Err(error) => sentence(&error.to_string()),
            },
            _ => format!("`{field}` is a duration with a unit, such as `5 days` or `1d12h`."),
        };
        self.fault(field, plain(&shown(value), &refused));
        None
    }
}

fn looks_like_date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let is_number = |part: Option<&str>| {
        part.is_some_and(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    };
    is_number(parts.next()) && is_number(parts.next()) && parts.next().is_some()
}

/// An error text as a sentence: capital letter and full stop.
pub(super) fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars
        .next()
        .map(|c| c.to_uppercase().to_string())
        .unwrap_or_default();
    format!("{first}{}.", chars.as_str().trim_end_matches('.'))
}
