//! One step as it is written.
//!
//! Owns the kinds of step and their fields. It must never look at other steps: ids, order and
//! expressions are put together afterwards.

use std::borrow::Cow;
use std::time::Duration;

use holdpoint_contracts::contact::REPLY_SIGNAL;
use holdpoint_contracts::duration::{self, MAX_WAIT};
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::tool::WAIT_UNTIL_REPLY;
use serde_json::{Map, Value};

use super::diagnostics::{AgentChecker, MAX_STEPS, Place, is_name, shown};
use super::fields;
use crate::domain::expression::diagnostic;
use crate::domain::model::plan::person_steps::ApprovalRule;
use crate::domain::model::plan::{Action, ForEach, OnError, Retry};

/// Shortest wait and claim timeout (S3-R7).
const MIN_WAIT: Duration = Duration::from_secs(1);
const KINDS: [&str; 7] = [
    "tool", "wait", "wait_for", "ask", "handoff", "run", "finish",
];
/// Ids that placeholders use for something else.
const RESERVED: [&str; 4] = ["input", "contact", "run", "item"];

/// A step on its way into the plan. Its errors are reported already.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) id: String,
    /// `None`: the step before.
    pub(super) needs: Option<Vec<String>>,
    pub(super) when: Option<String>,
    pub(super) claim_timeout_ms: Option<u64>,
    pub(super) approval: Option<ApprovalRule>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) retry: Option<Retry>,
    pub(super) on_error: OnError,
    pub(super) for_each: Option<ForEach>,
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
        // The ids of a plan count from its own first step.
        let number = at.saturating_sub(self.planner_steps);
        let Value::Object(step) = step else {
            let id = default_id(number);
            let said = "A step is an object, such as `tool: send_email` with `args`.";
            self.report(Place::Step(at, &id, None), diagnostic(&shown(step), said));
            return Draft {
                id,
                ..Draft::default()
            };
        };
        let id = self.id(at, number, step.get("id"));
        let step = &match with_wait_for_reply(step) {
            Ok(step) => step,
            Err(message) => {
                self.report_step((at, &id), "args", diagnostic(WAIT_UNTIL_REPLY, message));
                return Draft {
                    id,
                    ..Draft::default()
                };
            }
        };
        for name in step.keys() {
            if self.is_full() {
                break;
            }
            if let Some(diagnostic) = fields::step_field(name) {
                self.report(Place::Step(at, &id, Some(name)), diagnostic);
            }
        }
        let mut reader = StepReader {
            checker: self,
            at,
            id: &id,
        };
        let timeout = step.get("claim_timeout");
        Draft {
            needs: reader.needs(step.get("needs")),
            when: reader.when(step.get("when")),
            claim_timeout_ms: timeout.and_then(|it| reader.duration_ms("claim_timeout", it)),
            approval: reader.approval(step.get("approval"), step.contains_key("tool")),
            timeout_ms: reader.timeout(step),
            retry: reader.retry(step),
            on_error: reader.on_error(step),
            for_each: reader.for_each(step),
            action: reader.action(step),
            id,
        }
    }

    fn id(&mut self, at: usize, number: usize, value: Option<&Value>) -> String {
        let default = default_id(number);
        let Some(value) = value else { return default };
        let message = match value {
            Value::String(id) => match id_error(id, number) {
                None => return id.clone(),
                Some(message) => message,
            },
            _ => "The id of a step is a text.".to_owned(),
        };
        self.report_step((at, &default), "id", diagnostic(&shown(value), message));
        default
    }
}

/// The sources name the wait for a reply as a tool. Its arguments are fields of `wait_for`.
fn with_wait_for_reply(
    step: &Map<String, Value>,
) -> Result<Cow<'_, Map<String, Value>>, &'static str> {
    if step.get("tool").and_then(Value::as_str) != Some(WAIT_UNTIL_REPLY) {
        return Ok(Cow::Borrowed(step));
    }
    let args = match step.get("args") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(args)) => args.clone(),
        Some(_) => return Err("`args` of `wait_until_reply` is an object."),
    };
    let is_known = |name: &String| name == "timeout" || name == "on_timeout";
    if !args.keys().all(is_known) {
        return Err("`wait_until_reply` takes `timeout` and `on_timeout`.");
    }
    let of_tool = ["wait_for", "retry", "timeout", "for_each", "approval"];
    if of_tool.iter().any(|name| step.contains_key(*name)) {
        return Err(
            "`wait_until_reply` is a wait: it has no `retry`, `timeout`, `for_each`, `approval` or `wait_for` beside `args`.",
        );
    }
    let mut wait = Map::from_iter([
        ("signal".to_owned(), Value::from(REPLY_SIGNAL)),
        ("on_timeout".to_owned(), Value::from("skip")),
    ]);
    wait.extend(args);
    let mut step = step.clone();
    step.retain(|name, _| name != "tool" && name != "args");
    step.insert("wait_for".to_owned(), Value::Object(wait));
    Ok(Cow::Owned(step))
}

fn id_error(id: &str, at: usize) -> Option<String> {
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
pub(super) struct StepReader<'r, 't> {
    pub(super) checker: &'r mut AgentChecker<'t>,
    at: usize,
    id: &'r str,
}

impl StepReader<'_, '_> {
    pub(super) fn report(&mut self, field: &str, diagnostic: FieldError) {
        self.checker
            .report_step((self.at, self.id), field, diagnostic);
    }

    /// Reports a value; `None` says that it was refused.
    pub(super) fn refuse<T>(
        &mut self,
        field: &str,
        value: &Value,
        message: impl Into<String>,
    ) -> Option<T> {
        self.report(field, diagnostic(&shown(value), message));
        None
    }

    pub(super) fn default_time_zone(&self) -> String {
        self.checker.time_zone.clone()
    }

    fn needs(&mut self, value: Option<&Value>) -> Option<Vec<String>> {
        let value = value?;
        let names = value.as_array().and_then(|names| {
            let names = names.iter().map(|name| name.as_str().map(str::to_owned));
            names.collect()
        });
        names.or_else(|| {
            let message = "`needs` is a list of step ids; `[]` needs nothing.";
            self.refuse("needs", value, message)
        })
    }

    fn when(&mut self, value: Option<&Value>) -> Option<String> {
        match value? {
            text @ Value::String(condition) if condition.trim().starts_with("{{") => {
                let message = "A condition is CEL already; write it without `{{ }}`.";
                self.refuse("when", text, message)
            }
            Value::String(text) => Some(text.trim().to_owned()),
            Value::Bool(flag) => Some(flag.to_string()),
            other => {
                let message = "`when` is a condition, such as `contact.replied == false`.";
                self.refuse("when", other, message)
            }
        }
    }

    /// The kind of the step that is not a `tool`, if it has one.
    pub(super) fn other_kind(step: &Map<String, Value>) -> Option<&'static str> {
        let mut others = KINDS.into_iter().filter(|kind| *kind != "tool");
        others.find(|kind| step.contains_key(*kind))
    }

    fn action(&mut self, step: &Map<String, Value>) -> Option<Action> {
        let mut kinds = KINDS
            .iter()
            .filter_map(|kind| Some((*kind, step.get(*kind)?)));
        let Some((kind, value)) = kinds.next() else {
            // A kind that is still to come has been refused by name already.
            if !step.keys().any(|name| fields::is_later_kind(name)) {
                let message = "A step says what it does: `tool: NAME`, `wait: DURATION`, `wait_for: SIGNAL`, `ask: …`, `handoff: …`, `run: AGENT` or `finish: SUMMARY`.";
                self.report("id", diagnostic("", message));
            }
            return None;
        };
        if let Some((other, _)) = kinds.next() {
            let message = format!("A step is either a `{kind}` or a `{other}`; make it two steps.");
            self.report(other, diagnostic(other, message));
            return None;
        }
        if kind != "tool" && step.contains_key("args") {
            let message = format!("`args` belongs to a `tool`; a `{kind}` has none.");
            self.report("args", diagnostic("args", message));
        }
        match kind {
            "tool" => self.tool(value, step.get("args")),
            "ask" => self.ask(value),
            "handoff" => self.handoff(value),
            "wait_for" => self.wait_for(value),
            "run" => self.run(value),
            "finish" => self.finish(value),
            _ => self.wait(value),
        }
    }

    fn tool(&mut self, tool: &Value, args: Option<&Value>) -> Option<Action> {
        let args = match args {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(fields)) => fields.clone(),
            Some(other) => {
                let message = "`args` is an object with a field for each argument.";
                return self.refuse("args", other, message);
            }
        };
        let args = Value::Object(self.with_template(tool, args)?);
        match tool {
            Value::String(name) if is_name(name) => Some(Action::Tool {
                tool: name.clone(),
                args,
            }),
            other => {
                let message = "The name of a tool has 1 to 100 letters, digits, dots, underscores or hyphens and starts with a letter or digit.";
                self.refuse("tool", other, message)
            }
        }
    }

    /// A duration between one second and 90 days (S0-AC8, S3-R7).
    pub(super) fn duration_ms(&mut self, field: &str, value: &Value) -> Option<u64> {
        self.duration_within_ms(field, field, value)
    }

    /// As [`Self::duration_ms`], of a field inside the field `outer` of the step.
    pub(super) fn duration_within_ms(
        &mut self,
        outer: &str,
        field: &str,
        value: &Value,
    ) -> Option<u64> {
        let message = match value {
            Value::String(text) => match duration::parse(text) {
                Ok(duration) if duration.is_zero() => {
                    format!("`{field}` cannot be 0; the shortest is 1 second.")
                }
                Ok(duration) if duration < MIN_WAIT => format!("`{field}` is at least 1 second."),
                Ok(duration) if duration > MAX_WAIT => format!("`{field}` is at most 90 days."),
                Ok(duration) => return u64::try_from(duration.as_millis()).ok(),
                Err(error) => sentence(&error.to_string()),
            },
            _ => format!("`{field}` is a duration with a unit, such as `5 days` or `1d12h`."),
        };
        self.refuse(outer, value, message)
    }
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
