//! The steps of an agent: written as `steps`, or compiled from its `instructions`.

use std::collections::BTreeMap;

use holdpoint_contracts::duration;
use holdpoint_contracts::problem::FieldError;
use holdpoint_ids::nearest;
use holdpoint_instructions::{InstructionError, InstructionStep, compile, write_step};
use serde_json::{Map, Value, json};

use super::diagnostics::{AgentChecker, MAX_STEPS, shown};
use super::step::default_id;
use super::wait_steps::business_days_text;
use crate::domain::expression::{diagnostic, is_placeholder};

const INSTRUCTIONS: &str = "instructions";

/// Longest words of a step that are kept, in bytes.
const WORDS_BYTES_MAX: usize = 2_000;

/// Fields of a step whose objects may hold times.
const INNER_FIELDS: [&str; 5] = ["wait_for", "ask", "handoff", "run", "approval"];

/// The steps as their author could have written them.
pub(super) struct WrittenSteps {
    pub(super) steps: Vec<Value>,
    /// Each step as an instruction; empty: the grammar has no words for it.
    pub(super) words: Vec<String>,
}

impl AgentChecker<'_> {
    /// `None`: they were refused.
    pub(super) fn written_steps(&mut self, agent: &Map<String, Value>) -> Option<WrittenSteps> {
        let present = |name: &str| agent.get(name).filter(|value| !value.is_null());
        match (present("steps"), present(INSTRUCTIONS)) {
            (Some(steps), None) => self.steps_list(steps),
            (None, Some(Value::String(text))) => self.compile_instructions(text),
            (None, Some(other)) => {
                let message = "`instructions` is a text with one step on each line.";
                self.report_field(INSTRUCTIONS, &shown(other), message);
                None
            }
            (Some(_), Some(_)) => {
                let message = "An agent has either `steps` or `instructions`.";
                self.report_field(INSTRUCTIONS, INSTRUCTIONS, message);
                None
            }
            (None, None) => {
                let message = "An agent needs `steps` or `instructions`.";
                self.report_field("steps", "steps", message);
                None
            }
        }
    }

    fn steps_list(&mut self, value: &Value) -> Option<WrittenSteps> {
        let message = match value {
            Value::Array(steps) if (1..=MAX_STEPS).contains(&steps.len()) => {
                let words = steps.iter().enumerate();
                let words: Vec<_> = words.map(|(at, step)| words_of(at, step)).collect();
                let has_words = words.iter().any(|words| !words.is_empty());
                return Some(WrittenSteps {
                    words: if has_words { words } else { Vec::new() },
                    steps: steps.clone(),
                });
            }
            Value::Array(steps) if steps.is_empty() => "An agent has at least one step.".to_owned(),
            Value::Array(steps) => {
                let count = steps.len();
                format!("An agent has at most {MAX_STEPS} steps; this one has {count}.")
            }
            _ => "`steps` is a list of steps.".to_owned(),
        };
        let text = match value {
            Value::Array(_) => "steps".to_owned(),
            other => shown(other),
        };
        self.report_field("steps", &text, message);
        None
    }

    fn compile_instructions(&mut self, text: &str) -> Option<WrittenSteps> {
        match compile(text) {
            Ok(compiled) => {
                let lines = compiled.iter().map(|step| step.line).collect();
                self.lines.place_instructions(text, lines);
                self.check_placeholders(&compiled);
                let split = |step: InstructionStep| (step.fields.into(), short_words(step.text));
                let (steps, words) = compiled.into_iter().map(split).unzip();
                Some(WrittenSteps { steps, words })
            }
            Err(errors) => {
                let lines = errors.iter().map(|error| error.line).collect();
                self.lines.place_instructions(text, lines);
                for (at, error) in errors.into_iter().enumerate() {
                    self.report_instruction(at, text, error);
                }
                None
            }
        }
    }

    /// Refuses paths such as `$nope.stage`. In `steps` such a text may be plain, and in a line it is meant as a path.
    fn check_placeholders(&mut self, steps: &[InstructionStep]) {
        let ids = steps.iter().enumerate();
        let ids: BTreeMap<_, _> = ids.map(|(at, step)| (step_id(at, step), at)).collect();
        for (at, step) in steps.iter().enumerate() {
            let values = step.fields.iter().filter(|(field, _)| *field != "when");
            for (_, value) in values {
                let Some(path) = unknown_path(value, &ids) else {
                    continue;
                };
                let message = format!(
                    "`{path}` names a step that this agent does not have. Write `${path}` for the plain text."
                );
                let names = ids.keys().map(String::as_str);
                let root = path.trim_start_matches('$');
                let error = FieldError {
                    nearest: nearest(root.split('.').next().unwrap_or(root), names),
                    ..diagnostic(path, message)
                };
                self.report_step((at, &step_id(at, step)), "args", error);
            }
        }
    }

    fn report_instruction(&mut self, at: usize, text: &str, error: InstructionError) {
        if self.is_full() {
            return;
        }
        let line = self.lines.step(at, None);
        let written = text.lines().nth(error.line.saturating_sub(1));
        let indent = line.map_or(0, |line| {
            self.lines
                .indent_of_block(line, written.unwrap_or_default())
        });
        let message = match line {
            Some(_) => error.message,
            None => format!("Line {} of `instructions`: {}", error.line, error.message),
        };
        self.errors.push(FieldError {
            line,
            column: Some(error.column + indent),
            nearest: error.nearest,
            ..diagnostic(&error.text, message)
        });
    }
}

fn step_id(at: usize, step: &InstructionStep) -> String {
    let id = step.fields.get("id").and_then(Value::as_str);
    id.map_or_else(|| default_id(at), str::to_owned)
}

/// The first text that is a path as a whole and names nothing.
fn unknown_path<'v>(value: &'v Value, ids: &BTreeMap<String, usize>) -> Option<&'v str> {
    match value {
        Value::String(text) => {
            let path = text.strip_prefix('$')?;
            let is_part = |c: char| c.is_ascii_alphanumeric() || "._-[]".contains(c);
            let is_path =
                path.starts_with(|c: char| c.is_ascii_alphabetic()) && path.chars().all(is_part);
            (is_path && !is_placeholder(text, ids)).then_some(text)
        }
        Value::Array(items) => items.iter().find_map(|item| unknown_path(item, ids)),
        Value::Object(fields) => fields.values().find_map(|field| unknown_path(field, ids)),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// A step as an instruction; empty: the grammar has no words for it.
pub(super) fn words_of(at: usize, step: &Value) -> String {
    let Value::Object(step) = step else {
        return String::new();
    };
    let mut step = step.clone();
    if step.get("id").is_some_and(|id| *id == default_id(at)) {
        step.shift_remove("id");
    }
    write_long_forms(&mut step);
    write_step(&step).map_or_else(String::new, short_words)
}

/// Replaces short forms by the ones that have words, such as `3d` by `3 days`. They mean the same.
fn write_long_forms(step: &mut Map<String, Value>) {
    for (kind, name) in [("wait_for", "signal"), ("run", "agent")] {
        if let Some(text) = step.get_mut(kind).filter(|value| value.is_string()) {
            *text = json!({ name: text.take() });
        }
    }
    if let Some(wait) = step.get_mut("wait")
        && let Some(days) = wait.as_str().and_then(business_days_text)
    {
        *wait = json!({ "business_days": days });
    }
    for (name, value) in step {
        match value {
            Value::Object(inner) if INNER_FIELDS.contains(&name.as_str()) => {
                let times = inner.iter_mut().filter(|(name, _)| is_time(name));
                times.for_each(|(_, time)| write_long_time(time));
            }
            time if name == "wait" || is_time(name) => write_long_time(time),
            _ => {}
        }
    }
}

fn is_time(name: &str) -> bool {
    ["timeout", "decide_within", "valid_for"].contains(&name)
}

fn write_long_time(time: &mut Value) {
    let length = time.as_str().and_then(|text| duration::parse(text).ok());
    let Some(length) = length else { return };
    // A length of many units has no such words.
    let words = duration::describe(length);
    if duration::parse(&words).is_ok_and(|read| read == length) {
        *time = Value::from(words);
    }
}

/// Long words are left out: they repeat a text that the arguments have, and a reply has a limit.
fn short_words(words: String) -> String {
    if words.len() > WORDS_BYTES_MAX {
        String::new()
    } else {
        words
    }
}
